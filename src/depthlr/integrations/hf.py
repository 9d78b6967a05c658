"""Hugging Face Trainer: its recipe as it is, and a callback that compares its rate with the carried one.

In short:

    small, large = (recipe_from_trainer(trainer) for trainer in (small_trainer, large_trainer))
    carried = depthlr.transfer_rate(3e-3, small, large)
    large_trainer.args.learning_rate = carried.rate
    large_trainer.add_callback(rate_callback(large_trainer, carried))
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from depthlr.energy.step import largest_rate
from depthlr.errors import DepthlrError
from depthlr.integrations.trainer import RunReport, StepBatches, autocast_to, report_on
from depthlr.law.carried_rate import CarriedRate
from depthlr.transfer.rules import Recipe

logger = logging.getLogger(__name__)


class TrainerStep(nn.Module):
    """A model with the loss that its Trainer computes. The output holds both `logits` and `loss`."""

    def __init__(self, trainer: Any, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.trainer = trainer

    def forward(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        arguments = self.trainer.args
        half = {"bf16": torch.bfloat16, "fp16": torch.float16}
        dtype = next((kind for name, kind in half.items() if getattr(arguments, name, False)), None)
        with autocast_to(arguments.device, dtype):
            # A copy, because compute_loss takes labels out of its inputs.
            loss, outputs = self.trainer.compute_loss(self.model, dict(batch), return_outputs=True)
        if isinstance(outputs, Mapping):
            return {**outputs, "loss": loss}
        return {"outputs": outputs, "loss": loss}

    def make_optimizer(self) -> Optimizer:
        """The optimizer that the Trainer's `create_optimizer` makes for this model, parameter groups included."""
        trainer = self.trainer
        if trainer.optimizer is not None and self.model is trainer.model:
            made: Optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)  # in accelerate's wrapper
            return made
        own = copy.copy(trainer)  # create_optimizer writes into its Trainer
        own.model = own.model_wrapped = self.model
        own.optimizer = None
        return own.create_optimizer()  # type: ignore[no-any-return]


def recipe_from_trainer(trainer: Any) -> Recipe:
    """The recipe of a Trainer: model, data, loss, optimizer, schedule and steps, all as they are.

    A batch is what one optimizer step sees: the micro-batches of gradient accumulation and of all processes together.
    It needs the memory of that many examples.

    Args:
        trainer: A `transformers.Trainer`, or a subclass. With `model_init` every initialization is drawn anew. Without
            it the Trainer's model is measured as it is, and is set to train mode.
    """

    def draw() -> TrainerStep:
        return _step(trainer, trainer.call_model_init())

    draws = getattr(trainer, "model_init", None) is not None
    batches = step_batches(trainer)
    steps = _steps(trainer, batches)
    return Recipe(
        draw if draws else _step(trainer, trainer.model),
        batches,
        optimizer=TrainerStep.make_optimizer,
        schedule=_schedule(trainer.args, steps),
        steps=steps,
    )


def _step(trainer: Any, model: nn.Module) -> TrainerStep:
    return TrainerStep(trainer, model.to(trainer.args.device).train())


def step_batches(trainer: Any) -> StepBatches:
    """The batches of a Trainer's optimizer steps, with the examples of all processes and of accumulation.

    Args:
        trainer: The Trainer. Its `get_train_dataloader` is asked for batches of a whole step. Where an override
            returns other batches, as many of these as one step sees are joined.
    """
    arguments = trainer.args
    micro_batches = arguments.gradient_accumulation_steps * arguments.world_size
    size = arguments.train_batch_size * micro_batches
    own = copy.copy(trainer)
    own._train_batch_size = size
    own.accelerator = _Unsharded(trainer.accelerator)

    def loader() -> Iterable[Any]:
        found: Iterable[Any] = own.get_train_dataloader()
        return found

    is_whole = getattr(loader(), "batch_size", None) == size
    return StepBatches(loader, 1 if is_whole else micro_batches)


class _Unsharded:
    """An accelerator that leaves a loader as it is: every rank reads the same batches."""

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator

    def prepare(self, loader: Any) -> Any:
        return loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._accelerator, name)


def _steps(trainer: Any, batches: StepBatches) -> int | None:
    arguments = trainer.args
    if arguments.max_steps > 0:
        return int(arguments.max_steps)
    try:
        return math.ceil(float(arguments.num_train_epochs) * len(batches))
    except (TypeError, NotImplementedError):  # a stream has no length
        return None


def _schedule(arguments: Any, steps: int | None) -> str:
    """The scheduler's name; `warmup-` before it if the run warms up."""
    kind = arguments.lr_scheduler_type
    name = str(getattr(kind, "value", kind)).removesuffix("_with_warmup")
    return f"warmup-{name}" if arguments.get_warmup_steps(steps or 1000) > 0 else name


def rate_callback(trainer: Any, carried: CarriedRate, *, energies: bool = True) -> Any:
    """A `TrainerCallback` that compares the rate of a run with the carried one when the run begins.

    It logs the rule, the depths, the carried rate with its interval, whether the rule's assumptions hold, the rate in
    use and the energies at rate 1, all under `depthlr/`. Rank 0 warns if the rate in use is far from the carried one,
    or if the rule's assumptions do not hold. The rate does not change. Its `report` holds the result. In a distributed
    run all ranks agree.

    Args:
        trainer: The Trainer of the run; pass the callback to its `add_callback`.
        carried: What `transfer_rate` returned.
        energies: Also measure the update energy of the first step.
    """
    from transformers import TrainerCallback

    if not isinstance(carried, CarriedRate):
        raise DepthlrError(f"rate_callback was given {carried!r}: pass what transfer_rate returned.")

    class RateCallback(TrainerCallback):
        report: RunReport | None = None

        def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **others: Any) -> None:
            if state.global_step:  # a run that goes on from a checkpoint has its rate already
                return
            used = float(args.learning_rate) if optimizer is None else largest_rate([optimizer])
            self.report = report_on(lambda: carried, recipe_from_trainer(trainer), used, energies=energies)
            trainer.log(self.report.values())
            if (sentence := self.report.warning()) is not None and state.is_world_process_zero:
                logger.warning(sentence)

    return RateCallback()
