"""Lightning: the recipe of a LightningModule as it is, and a callback in the place of `Tuner.lr_find`.

In short:

    small = recipe_from_lightning(lambda: LitGPT(layers=4), data)
    large = recipe_from_lightning(lambda: LitGPT(layers=24), data)
    depthlr.transfer_rate(3e-3, small, large)
    Trainer(callbacks=[rate_callback(3e-3, small=lambda: LitGPT(layers=4))]).fit(LitGPT(layers=24), data)
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from depthlr.energy.given_optimizer import largest_rate
from depthlr.errors import DepthlrError
from depthlr.integrations.trainer import (
    RunReport,
    StepBatches,
    autocast_to,
    report_on,
    scale_rates,
    world_size,
)
from depthlr.trace.interface import logits_of
from depthlr.transfer.rules import Recipe, Rule

HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}  # precisions of a Trainer that cast while they run


class LightningStep(nn.Module):
    """A LightningModule whose forward is its `training_step`. The output holds both the readout and `loss`.

    The readout is the output of the last module with parameters that `training_step` calls itself.
    """

    def __init__(self, module: Any, precision: str = "32-true") -> None:
        super().__init__()
        self.module = module
        self.precision = precision
        if not getattr(module, "automatic_optimization", True):
            raise DepthlrError(
                "the LightningModule optimizes by hand, so its training_step is not the loss of one step: measure its "
                "model with depthlr.update_energy, or use automatic optimization."
            )

    def forward(self, batch: Any) -> dict[str, Any]:
        module = self.module
        device = next(module.parameters()).device
        given = {"batch": batch, "batch_idx": 0, "dataloader_idx": 0}
        taken = len(inspect.signature(module.training_step).parameters)
        with _without_logging(module), _LastOutput(module) as last, autocast_to(device, HALF.get(self.precision)):
            step = module.training_step(*list(given.values())[:taken])
        loss = step.get("loss") if isinstance(step, Mapping) else step
        if not isinstance(loss, Tensor):
            raise DepthlrError(f"training_step returned {type(step).__name__}: let it return the loss.")
        if last.output is None:
            raise DepthlrError("training_step calls no module that has parameters, so there is no readout to measure.")
        logits = logits_of(last.output)
        return {"loss": loss, **({"outputs": last.output} if logits is None else {"logits": logits})}

    def make_optimizer(self) -> Any:
        """What the module's `configure_optimizers` returns, schedulers included."""
        return self.module.configure_optimizers()


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
def _without_logging(module: Any) -> Iterator[None]:
    """Logging needs the loop of a running Trainer."""
    names = ("log", "log_dict")
    for name in names:
        object.__setattr__(module, name, lambda *given, **options: None)
    try:
        yield
    finally:
        for name in names:
            object.__delattr__(module, name)


def recipe_from_lightning(
    build: Any,
    data: Any,
    *,
    accumulate_grad_batches: int = 1,
    precision: str = "32-true",
    device: torch.device | str = "cpu",
    steps: int | None = None,
    schedule: str = "constant",
    trainer: Any = None,
) -> Recipe:
    """The recipe of a LightningModule: `training_step` is the loss, `configure_optimizers` the optimizer, as they are.

    A batch is what one optimizer step sees: the batches of accumulation and of all processes are joined. It needs the
    memory of that many examples.

    Args:
        build: The class of the module, a function that builds it, or a module that is measured as it is.
        data: A LightningDataModule, or the loader (or list) of training batches.
        accumulate_grad_batches: As the Trainer's.
        precision: As the Trainer's; `bf16-mixed` and `16-mixed` run under autocast.
        device: Where models are measured.
        steps: How many optimizer steps the run has.
        schedule: How the rate moves during the run.
        trainer: What `self.trainer` is in the modules, if their `training_step` or `configure_optimizers` asks for it.
    """

    def step(module: Any) -> LightningStep:
        if not hasattr(module, "training_step"):
            raise DepthlrError(f"a LightningModule is wanted, and a {type(module).__name__} has no training_step.")
        if trainer is not None:
            module.trainer = trainer
        return LightningStep(module.to(device).train(), str(precision))

    step_or_builder: Any = lambda: step(build())  # noqa: E731
    if isinstance(build, nn.Module):
        step_or_builder = step(build)
    return Recipe(
        step_or_builder,
        StepBatches(_loader(data), accumulate_grad_batches * world_size()),
        optimizer=lambda one: one.make_optimizer(),
        schedule=schedule,
        steps=steps,
    )


def _steps(trainer: Any) -> int | None:
    """The optimizer steps of the run, also if it is limited in epochs. None if it has no end."""
    steps = trainer.estimated_stepping_batches
    return int(steps) if 0 < steps < float("inf") else None


def _loader(data: Any) -> Callable[[], Iterable[Any]]:
    if not hasattr(data, "train_dataloader"):
        return lambda: data
    ready = False

    def loader() -> Iterable[Any]:
        nonlocal ready
        if not ready:
            data.prepare_data()
            data.setup("fit")
            ready = True
        found: Iterable[Any] = data.train_dataloader()
        return found

    return loader


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

    The data, accumulation, precision and device are those of the run. It logs the depths, the carried rate with its
    interval and the energies under `depthlr/`, to every logger, and prints the result with its rule on rank 0. Its
    `report` holds the result. In a distributed run all ranks agree.

    Args:
        tuned_rate: The rate tuned on the small model.
        small: The class of the small module, a function that builds it, or a `Recipe`.
        large: A function that builds the module of the run anew, so that several initializations are measured. If
            None, the run's own initialization is measured.
        rule: As in `transfer_rate`.
        set_rate: Set the rates of the run to the carried one. The group with the largest rate gets it, and the others
            keep their ratio to it. If False, warn if the run's rate lies outside the carried interval.
        attr_name: The attribute of the module that holds the rate; `lr` or `learning_rate` if it has one of these.
        energies: Also measure the update energy of the first step.
        options: Further options of `transfer_rate`, such as `seeds`.
    """
    from lightning.pytorch import Callback
    from lightning.pytorch.utilities import rank_zero_info
    from lightning.pytorch.utilities.parsing import lightning_hasattr, lightning_setattr

    class RateCallback(Callback):
        report: RunReport | None = None

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            if trainer.ckpt_path is not None:  # a run that goes on from a checkpoint has its rate already
                return
            of_run = {
                "accumulate_grad_batches": trainer.accumulate_grad_batches,
                "precision": trainer.precision,
                "device": pl_module.device,
                "trainer": trainer,
                "steps": _steps(trainer),
                "schedule": "+".join(type(one.scheduler).__name__ for one in trainer.lr_scheduler_configs)
                or "constant",
            }
            data = trainer.datamodule or trainer.fit_loop._data_source.instance
            source = small if isinstance(small, Recipe) else recipe_from_lightning(small, data, **of_run)
            target = recipe_from_lightning(pl_module if large is None else large, data, **of_run)
            rate = None if set_rate else largest_rate(trainer.optimizers)
            self.report = report_on(tuned_rate, source, target, rate, rule=rule, energies=energies, **options)
            if set_rate:
                self._set_rate(trainer, pl_module, self.report.rate)
            rank_zero_info(f"depthlr: {self.report.carried}")
            for logger in trainer.loggers:
                values = self.report.values()
                logger.log_metrics({name: value for name, value in values.items() if not isinstance(value, str)}, 0)

        def _set_rate(self, trainer: Any, pl_module: Any, rate: float) -> None:
            names = [attr_name] if attr_name else ["lr", "learning_rate"]
            held = [name for name in names if lightning_hasattr(pl_module, name)]
            if attr_name and not held:
                raise DepthlrError(f"the module and its hparams have no {attr_name!r}: name the attribute they have.")
            for name in held[:1]:
                lightning_setattr(pl_module, name, rate)
            schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
            scale_rates(trainer.optimizers, schedulers, rate / largest_rate(trainer.optimizers))

    return RateCallback()
