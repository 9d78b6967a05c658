"""A LightningModule as a model to measure, its training batches, and what its Trainer says of schedule and steps."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from depthlr.errors import DepthlrError
from depthlr.integrations.trainer import autocast_to
from depthlr.trace.interface import logits_of

HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}  # precisions of a Trainer that cast while they run
BATCH_HOOKS = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")  # in a run's order


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
        given = [self._transferred(batch, device), 0, 0]  # batch, batch_idx, dataloader_idx
        taken = len(inspect.signature(module.training_step).parameters)
        half = autocast_to(device, HALF.get(self.precision))
        with _without_logging(module), _last_output(module) as last, half:
            step = module.training_step(*given[:taken])
        if not last:
            raise DepthlrError("training_step calls no module that has parameters, so there is no readout to measure.")
        loss = step.get("loss") if isinstance(step, Mapping) else step
        if not isinstance(loss, Tensor):
            raise DepthlrError(f"training_step returned {type(step).__name__}: let it return the loss.")
        logits = logits_of(last[0])
        return {"loss": loss, "outputs": last[0]} if logits is None else {"loss": loss, "logits": logits}

    def make_optimizer(self) -> Any:
        """What the module's `configure_optimizers` returns, schedulers included."""
        return self.module.configure_optimizers()

    def _transferred(self, batch: Any, device: torch.device) -> Any:
        """The batch as `training_step` gets it. A hook of the DataModule goes before the module's own."""
        for name in BATCH_HOOKS:
            of_data = getattr(type(self.data), name, None)
            inherited = of_data is None or of_data.__module__.endswith("core.hooks")  # where Lightning defines them
            hook = getattr(self.module if inherited else self.data, name)
            batch = hook(batch, device, 0) if name == "transfer_batch_to_device" else hook(batch, 0)
        return batch


@contextlib.contextmanager
def _without_logging(module: Any) -> Iterator[None]:
    """`log` needs the loop of a running Trainer."""

    def nothing(*given: Any, **options: Any) -> None:
        return None

    vars(module).update(log=nothing, log_dict=nothing)
    try:
        yield
    finally:
        del module.log, module.log_dict


@contextlib.contextmanager
def _last_output(module: nn.Module) -> Iterator[list[Any]]:
    """A list that will hold the output of the last outermost call of a module with parameters."""
    last: list[Any] = []
    running: list[nn.Module] = []  # calls that have begun and not ended

    def begin(one: nn.Module, given: Any) -> None:
        running.append(one)

    def end(one: nn.Module, given: Any, output: Any) -> None:
        running.pop()
        if not running:
            last[:] = [output]

    hooks = []
    for one in module.modules():
        if next(one.parameters(), None) is not None:  # a loss has none
            hooks += [one.register_forward_pre_hook(begin), one.register_forward_hook(end)]
    try:
        yield last
    finally:
        for hook in hooks:
            hook.remove()


class TrainingData:
    """The training batches of a DataModule or of a loader, each call anew.

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
            elif isinstance(self.data, list | tuple):  # of batches
                of_trainer = {"train_dataloaders": DataLoader(self.data, batch_size=None)}  # type: ignore[arg-type]
            self.trainer._data_connector.attach_data(module, **of_trainer)
        module.trainer = self.trainer

    def __call__(self) -> Iterable[Any]:
        self._set_up()
        found: Iterable[Any] = self.data
        if hasattr(self.data, "train_dataloader"):
            found = self.data.train_dataloader()
        return found

    def _set_up(self) -> None:
        if not self.is_ready and hasattr(self.data, "train_dataloader"):
            self.data.prepare_data()
            self.data.setup("fit")
        self.is_ready = True


def is_running(trainer: Any) -> bool:
    """Is this a Trainer in the middle of a run?

    Args:
        trainer: A Trainer or None.
    """
    return trainer is not None and trainer.state.status == "running"


def schedulers_in(made: Any) -> list[Any]:
    """The schedulers in what `configure_optimizers` returned.

    Args:
        made: Any of the forms that Lightning takes.
    """
    parts = list(made) if isinstance(made, list | tuple) else [made]
    found = [one["lr_scheduler"] for one in parts if isinstance(one, Mapping) and "lr_scheduler" in one]
    if len(parts) == 2 and isinstance(parts[0], list):
        found = parts[1] if isinstance(parts[1], list) else [parts[1]]
    schedulers = []
    for one in found:
        schedulers.append(one["scheduler"] if isinstance(one, Mapping) else one)
    return schedulers


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
