"""Lightning: the recipe of a LightningModule as it is, and a callback in the place of `Tuner.lr_find`.

In short:

    small = recipe_from_lightning(lambda: LitGPT(layers=4), data)
    large = recipe_from_lightning(lambda: LitGPT(layers=24), data)
    depthlr.transfer_rate(3e-3, small, large)
    Trainer(callbacks=[rate_callback(3e-3, small=lambda: LitGPT(layers=4))]).fit(LitGPT(layers=24), data)
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader

from depthlr import check
from depthlr.energy.given_optimizer import optimizers_of
from depthlr.energy.initializations import build_model
from depthlr.errors import DepthlrError, did_you_mean, kind_and_message
from depthlr.integrations.trainer import StepBatches, autocast_to, world_size
from depthlr.trace.interface import logits_of, unwrap
from depthlr.transfer.rules import Recipe, Rule

HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}  # precisions of a Trainer that cast while they run
BATCH_HOOKS = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")  # in a run's order
OPTIONS = ("family", "aggregate", "seed", "seeds")  # those of `transfer_rate` that `rate_callback` hands on
BY_HAND = (
    "the LightningModule optimizes by hand, so its training_step is not the loss of one step that a rule could measure:"
    " take the rule 'constant', or call transfer_rate(rate, Net(4), Net(16), x, steps=...) on the models inside and "
    "multiply every rate by its .factor."
)


class LightningStep(nn.Module):
    """A LightningModule whose forward is its `training_step`. The output holds both the readout and `loss`.

    The readout is the output of the last module with parameters that `training_step` calls itself. A batch goes
    through the hooks of batch transfer first, as in a run.
    """

    def __init__(self, module: Any, precision: str = "32-true", data: Any = None) -> None:
        super().__init__()
        self.module = module
        self.precision = precision
        self.data = data

    def forward(self, batch: Any) -> dict[str, Any]:
        module = self.module
        device = next(module.parameters()).device
        given = {"batch": self._transferred(batch, device), "batch_idx": 0, "dataloader_idx": 0}
        taken = len(inspect.signature(module.training_step).parameters)
        half = autocast_to(device, HALF.get(self.precision))
        with _attributes(module, self._stand_ins()), _LastOutput(module) as last, half:
            step = module.training_step(*list(given.values())[:taken])
        if last.output is None:
            raise DepthlrError("training_step calls no module that has parameters, so there is no readout to measure.")
        logits = logits_of(last.output)
        readout = {"outputs": last.output} if logits is None else {"logits": logits}
        if not module.automatic_optimization:
            return readout
        loss = step.get("loss") if isinstance(step, Mapping) else step
        if not isinstance(loss, Tensor):
            raise DepthlrError(f"training_step returned {type(step).__name__}: let it return the loss.")
        return {"loss": loss, **readout}

    def make_optimizer(self) -> Any:
        """What the module's `configure_optimizers` returns, schedulers included."""
        made = self.module.configure_optimizers()
        if made is None:
            raise DepthlrError(
                f"configure_optimizers of {type(self.module).__name__} returned None: let it return the optimizer."
            )
        return made

    def _transferred(self, batch: Any, device: torch.device) -> Any:
        """The batch as `training_step` gets it. A hook of the DataModule goes before the module's own."""
        for name in BATCH_HOOKS:
            of_data = getattr(type(self.data), name, None)
            inherited = of_data is None or of_data.__module__.endswith("core.hooks")  # where Lightning defines them
            hook = getattr(self.module if inherited else self.data, name)
            batch = hook(batch, device, 0) if name == "transfer_batch_to_device" else hook(batch, 0)
        return batch

    def _stand_ins(self) -> dict[str, Any]:
        """Methods that need the loop of a running Trainer, or would take a step."""

        def nothing(*given: Any, **options: Any) -> None:
            return None

        found: dict[str, Any] = {"log": nothing, "log_dict": nothing}
        if self.module.automatic_optimization:
            return found
        made = self.make_optimizer()
        optimizers, schedulers = optimizers_of(made, self.module), schedulers_in(made)
        for one in optimizers:
            idle = {"step": lambda closure=None, **options: closure and closure(), "zero_grad": nothing}
            vars(one).update(idle, toggle_model=lambda **options: contextlib.nullcontext())
        for name in ("manual_backward", "clip_gradients", "toggle_optimizer", "untoggle_optimizer"):
            found[name] = nothing
        given_optimizers = optimizers if len(optimizers) > 1 else optimizers[0]  # as Lightning gives them
        given_schedulers = schedulers if len(schedulers) > 1 else next(iter(schedulers), None)
        found["optimizers"] = lambda *given, **options: given_optimizers
        found["lr_schedulers"] = lambda: given_schedulers
        return found


def _step_loss(output: Mapping[str, Any], target: Any) -> Tensor:
    if "loss" not in output:
        raise DepthlrError(BY_HAND)
    loss: Tensor = output["loss"]
    return loss


class _LastOutput:
    """The output of the last outermost call of a module with parameters."""

    def __init__(self, module: nn.Module) -> None:
        self.output: Any = None
        self._open = 0  # calls that have begun and not ended
        self._module = module

    def __enter__(self) -> _LastOutput:
        self._hooks = [
            handle
            for one in self._module.modules()
            if next(one.parameters(), None) is not None  # a loss has none
            for handle in (one.register_forward_pre_hook(self._begin), one.register_forward_hook(self._end))
        ]
        return self

    def __exit__(self, *error: Any) -> None:
        for hook in self._hooks:
            hook.remove()

    def _begin(self, module: nn.Module, given: Any) -> None:
        self._open += 1

    def _end(self, module: nn.Module, given: Any, output: Any) -> None:
        self._open -= 1
        if not self._open:
            self.output = output


@contextlib.contextmanager
def _attributes(module: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Attributes of this one object while the context lasts."""
    for name, value in values.items():
        object.__setattr__(module, name, value)
    try:
        yield
    finally:
        for name in values:
            object.__delattr__(module, name)


class TrainingData:
    """The training batches of a DataModule, of a loader or of several loaders, each call anew.

    Args:
        data: As in `recipe_from_lightning`.
        trainer: The Trainer that modules are attached to, if any. One that is not running is told of the data, so that
            it can say how many steps a run has.
    """

    def __init__(self, data: Any, trainer: Any = None) -> None:
        self.data = data
        self.trainer = trainer
        self.is_ready = is_running(trainer)

    def attach(self, module: Any) -> None:
        """Give a module its trainer, once the data is there.

        Args:
            module: A LightningModule that is not in a run.
        """
        if self.trainer is None:
            return
        if not self.is_ready:
            self._set_up()
            self.trainer.strategy.connect(module)
            if self.trainer.max_epochs is None:  # as a run begins: no end but the steps, or else 1000 epochs
                self.trainer.fit_loop.max_epochs = 1000 if self.trainer.max_steps == -1 else -1
            of_trainer: dict[str, Any] = {"train_dataloaders": self.data}
            if hasattr(self.data, "train_dataloader"):
                of_trainer = {"datamodule": self.data}
            elif isinstance(self.data, list | tuple) and not _hold_loaders(self.data):  # batches
                of_trainer = {"train_dataloaders": DataLoader(self.data, batch_size=None)}  # type: ignore[arg-type]
            self.trainer._data_connector.attach_data(module, **of_trainer)
        module.trainer = self.trainer

    def __call__(self) -> Iterable[Any]:
        self._set_up()
        loaders = self.data.train_dataloader() if hasattr(self.data, "train_dataloader") else self.data
        if isinstance(loaders, Mapping | list | tuple) and _hold_loaders(loaders):
            from lightning.pytorch.utilities import CombinedLoader

            loaders = CombinedLoader(loaders, "max_size_cycle")  # as the Trainer combines them
        if hasattr(loaders, "flattened"):  # a CombinedLoader, whose copy leaves the run's own place in it alone
            return (batch for batch, _, _ in copy.copy(loaders))
        found: Iterable[Any] = loaders
        return found

    def _set_up(self) -> None:
        if not self.is_ready and hasattr(self.data, "train_dataloader"):
            self.data.prepare_data()
            self.data.setup("fit")
        self.is_ready = True


def _hold_loaders(data: Any) -> bool:
    return any(isinstance(one, DataLoader) for one in tree_leaves(data))


def is_running(trainer: Any) -> bool:
    """Is this a Trainer in the middle of a run?

    Args:
        trainer: A Trainer or None.
    """
    return trainer is not None and trainer.state.status == "running"


def recipe_from_lightning(
    build: Any,
    data: Any,
    *,
    accumulate_grad_batches: int = 1,
    precision: str = "32-true",
    device: torch.device | str = "cpu",
    steps: int | None = None,
    schedule: str | None = None,
    trainer: Any = None,
) -> Recipe:
    """The recipe of a LightningModule: `training_step` is the loss, `configure_optimizers` the optimizer, as they are.

    A batch is what one optimizer step sees: the batches of accumulation and of all processes are joined. It needs the
    memory of that many examples. A module that is built has its `setup("fit")` and `configure_model()` called.

    Args:
        build: The class of the module, a function that builds it, or a module that is measured as it is.
        data: A LightningDataModule, or the loader (or list) of training batches, or a collection of loaders.
        accumulate_grad_batches: As the Trainer's.
        precision: As the Trainer's; `bf16-mixed` and `16-mixed` run under autocast.
        device: Where models are measured.
        steps: How many optimizer steps the run has. None asks `trainer`, if it is given.
        schedule: How the rate moves during the run. None builds a module and takes the name of the scheduler that its
            `configure_optimizers` returns.
        trainer: What `self.trainer` is in the modules, if they ask for it. One that is not in a run is told of `data`.
    """
    training_data = TrainingData(data, trainer)

    def step(module: Any) -> LightningStep:
        name = type(module).__name__
        if not hasattr(module, "training_step"):
            raise DepthlrError(f"a LightningModule is wanted, and a {name} has no training_step.")
        if module is not build or not is_running(trainer):
            training_data.attach(module)
        if module is not build or next(module.parameters(), None) is None:
            try:
                module.setup("fit")
                module.configure_model()
            except Exception as error:
                raise DepthlrError(
                    f"setup('fit') and configure_model() of {name} failed ({kind_and_message(error)}): pass trainer= "
                    "and the LightningDataModule if they ask for these."
                ) from error
        if next(module.parameters(), None) is None:
            raise DepthlrError(
                f"{name} has no parameters after __init__, setup('fit') and configure_model(): build its layers there."
            )
        return LightningStep(module.to(device).train(), str(precision), data)

    step_or_builder: Any = lambda: step(unwrap(build()))  # noqa: E731
    if isinstance(build, nn.Module):
        step_or_builder = step(build)
    if schedule is None:
        schedule = _schedule_of(step_or_builder if isinstance(build, nn.Module) else build_model(step_or_builder))
    if steps is None and trainer is not None:
        steps = steps_of(trainer)
    return Recipe(
        step_or_builder,
        StepBatches(training_data, accumulate_grad_batches * world_size()),
        _step_loss,
        optimizer=lambda one: one.make_optimizer(),
        schedule=schedule,
        steps=steps,
    )


def _schedule_of(step: Any) -> str:
    try:
        return schedule_name(schedulers_in(step.make_optimizer()))
    except DepthlrError:
        raise
    except Exception as error:
        raise DepthlrError(
            f"configure_optimizers of {type(step.module).__name__} failed ({kind_and_message(error)}): pass "
            "trainer= if it asks for it, or schedule= if a rule that counts depths is wanted."
        ) from error


def schedulers_in(made: Any) -> list[Any]:
    """The schedulers in what `configure_optimizers` returned.

    Args:
        made: Any of the forms that Lightning takes.
    """
    parts = list(made) if isinstance(made, list | tuple) else [made]
    found = [one["lr_scheduler"] for one in parts if isinstance(one, Mapping) and "lr_scheduler" in one]
    if len(parts) == 2 and isinstance(parts[0], list):
        found = parts[1] if isinstance(parts[1], list) else [parts[1]]
    return [one["scheduler"] if isinstance(one, Mapping) else one for one in found]


def schedule_name(schedulers: Iterable[Any]) -> str:
    """The classes of schedulers as the name of a recipe's schedule.

    Args:
        schedulers: Those of one run.
    """
    return "+".join(type(one).__name__ for one in schedulers) or "constant"


def steps_of(trainer: Any) -> int | None:
    """The optimizer steps of the run, also if it is limited in epochs. None if it has no end.

    Args:
        trainer: A Trainer that knows its data.
    """
    steps = trainer.estimated_stepping_batches
    return int(steps) if 0 < steps < float("inf") else None


def rate_callback(
    tuned_rate: float,
    small: Any,
    *,
    large: Any = None,
    rule: str | Rule | None = None,
    set_rate: bool = True,
    attr_name: str = "",
    energies: bool = True,
    **options: Any,
) -> Any:
    """A Lightning callback that carries a rate to the run when it begins, in the place of `Tuner.lr_find`.

    The rate is the value of the module's `lr`, as for `lr_find`: it is set there, and the module's own
    `configure_optimizers` is called anew. So groups and schedulers get the rates that they would get if `lr` were
    written by hand. If the module has no such attribute, the rate is the largest one of its groups (with OneCycleLR,
    the peak), and all rates of optimizers and schedulers change by one factor.

    The data, accumulation, precision and device are those of the run. It logs the depths, the carried rate with its
    interval and the energies under `depthlr/`, to every logger, and prints the result with its rule on rank 0. Its
    `report` holds the result. In a distributed run all ranks agree. A run that goes on from a checkpoint keeps the
    rate of the checkpoint.

    Args:
        tuned_rate: The rate tuned on the small model.
        small: The class of the small module, a function that builds it, or a `Recipe`.
        large: A function that builds the module of the run anew, so that several initializations are measured. If
            None, the run's own initialization is measured.
        rule: As in `transfer_rate`.
        set_rate: Set the rates of the run to the carried one. If False, warn if the run's rate lies outside the
            carried interval.
        attr_name: The attribute of the module that holds the rate; `lr` or `learning_rate` if it has one of these.
        energies: Also measure the update energy of the first step, unless the module optimizes by hand.
        options: Further options of `transfer_rate`: `seeds`, `seed`, `family`, `aggregate`.
    """
    for name in options:
        if name not in OPTIONS:
            known = ("large", "rule", "set_rate", "attr_name", "energies", *OPTIONS)
            raise DepthlrError(f"rate_callback has no option {name}={did_you_mean(name, known)}: leave it out.")
    tuned_rate = check.positive("The rate", tuned_rate)
    # By name: the callback builds on this file, and its base class needs Lightning.
    callback = import_module("depthlr.integrations.lightning_callback").RateCallback
    return callback(tuned_rate, small, large, rule, set_rate, attr_name, energies, options)
