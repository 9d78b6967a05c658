"""Lightning: the recipe of a LightningModule as it is, and a callback in the place of `Tuner.lr_find`.

In short:

    small = recipe_from_lightning(lambda: LitGPT(layers=4), data)
    large = recipe_from_lightning(lambda: LitGPT(layers=24), data)
    depthlr.transfer_rate(3e-3, small, large)
    Trainer(callbacks=[rate_callback(3e-3, small=lambda: LitGPT(layers=4))]).fit(LitGPT(layers=24), data)
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, replace
from functools import partial
from numbers import Real
from typing import Any

import torch
from lightning.pytorch import Callback
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from lightning.pytorch.utilities.parsing import lightning_getattr, lightning_hasattr, lightning_setattr
from torch import nn

from depthlr import check
from depthlr.energy.initializations import model_of
from depthlr.energy.step import LARGEST_GROUP
from depthlr.errors import DepthlrError, one_sentence_errors
from depthlr.integrations.lightning_step import (
    LightningStep,
    TrainingData,
    is_running,
    schedule_name,
    schedulers_in,
    steps_of,
)
from depthlr.integrations.trainer import RunReport, StepBatches, report_on, world_size
from depthlr.law.carried_rate import CarriedRate
from depthlr.trace.interface import is_sharded, unwrap
from depthlr.transfer.recipe import CARRIED_RATES, OTHER_RATE
from depthlr.transfer.rules import Recipe, Rule, transfer_rate

OF_GROUPS = tuple(text.partition("{")[0] for text in (LARGEST_GROUP, OTHER_RATE, CARRIED_RATES))
BY_HAND = (
    "the LightningModule optimizes by hand, so its training_step is not the loss of one step that could be measured: "
    "call transfer_rate(rate, Net(4), Net(16), x, steps=...) on the models inside and multiply every rate by its "
    ".factor."
)
ASKS_FOR_MORE = "pass trainer= and the LightningDataModule if it asks for these"
OTHER_SHAPES = "large= builds parameters of other shapes than the module of the run has: let it build the same module."
NO_ATTRIBUTE = (
    "the module has no number {} and neither have its hparams: let configure_optimizers read its rate from such an "
    "attribute, as for lr_find; attr_name= is the name of another one."
)
NOT_READ = (
    "the rates of the run did not change with the module's {!r}: if configure_optimizers reads another attribute, "
    "pass its name as attr_name=."
)


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
        data: A LightningDataModule, or the loader (or list) of training batches. Several loaders are not
            supported.
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
        if not module.automatic_optimization:
            raise DepthlrError(BY_HAND)
        if module is not build or not is_running(trainer):
            training_data.attach(module)
        if module is not build or next(module.parameters(), None) is None:
            name = type(module).__name__
            with one_sentence_errors(f"setup('fit') and configure_model() of {name} failed: {ASKS_FOR_MORE}"):
                module.setup("fit")
                module.configure_model()
        return LightningStep(module.to(device).train(), str(precision), data)

    step_or_builder: Any = lambda: step(unwrap(build()))  # noqa: E731
    if isinstance(build, nn.Module):
        step_or_builder = step(build)
    if schedule is None:
        one: Any = model_of(step_or_builder)
        with one_sentence_errors(f"configure_optimizers of {type(one.module).__name__} failed: {ASKS_FOR_MORE}"):
            schedule = schedule_name(schedulers_in(one.make_optimizer()))
    if steps is None and trainer is not None:
        steps = steps_of(trainer)
    return Recipe(
        step_or_builder,
        StepBatches(training_data, accumulate_grad_batches * world_size()),
        optimizer=LightningStep.make_optimizer,
        schedule=schedule,
        steps=steps,
    )


class RateCallback(Callback):
    """Carries a rate to the run when it begins, in the place of `Tuner.lr_find`.

    The rate is the value of the module's `lr`, as for `lr_find`: it is set there, and the module's own
    `configure_optimizers` is called anew. So groups and schedulers get the rates that they would get if `lr` were
    written by hand.

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
        attr_name: The attribute of the module that holds the rate. If empty, `lr` or `learning_rate`.
        energies: Also measure the update energy of the first step.
        options: Further options of `transfer_rate`: `seeds`, `seed`, `family`, `aggregate`.

    Attributes:
        report: What is known of the rate. None before a run begins.
    """

    def __init__(
        self,
        tuned_rate: float,
        small: Any,
        *,
        large: Any = None,
        rule: str | Rule | None = None,
        set_rate: bool = True,
        attr_name: str = "",
        energies: bool = True,
        **options: Any,
    ) -> None:
        self.tuned_rate = check.positive("The rate", tuned_rate)
        self.small = small
        self.large = large
        self.rule = rule
        self.set_rate = set_rate
        self.attr_name = attr_name
        self.energies = energies
        self.options = options
        self.report: RunReport | None = None

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if stage == "fit":
            self.report = None

    def state_dict(self) -> dict[str, Any]:
        return {} if self.report is None else {"rate": self.report.rate, "carried": asdict(self.report.carried)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.report = RunReport(CarriedRate(**state_dict["carried"]), None, state_dict["rate"])

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        name = rate_attribute(pl_module, self.attr_name)
        if trainer.ckpt_path is not None:
            if self.report is not None and self.set_rate:
                lightning_setattr(pl_module, name, self.report.rate)
                rebuild_optimizers(trainer)
            held = "" if self.report is None else f": {self.report.carried}"
            rank_zero_info(f"depthlr: the run goes on at the rate of its checkpoint{held}")
            return
        self.report = self._measure(trainer, pl_module, name)
        if self.set_rate:
            self._set_rate(trainer, pl_module, name)
        rank_zero_info(f"depthlr: {self.report.carried}")
        if (sentence := self.report.warning()) is not None:
            rank_zero_warn(sentence)
        for logger in trainer.loggers:
            values = self.report.values()
            logger.log_metrics({name: value for name, value in values.items() if not isinstance(value, str)}, 0)

    def _measure(self, trainer: Any, pl_module: Any, name: str) -> RunReport:
        of_run = {
            "accumulate_grad_batches": trainer.accumulate_grad_batches,
            "precision": trainer.precision,
            "device": pl_module.device,
            "trainer": trainer,
            "steps": steps_of(trainer),
            "schedule": schedule_name(schedulers_of(trainer)),
        }
        data = trainer.datamodule or trainer.fit_loop._data_source.instance
        source = self.small if isinstance(self.small, Recipe) else recipe_from_lightning(self.small, data, **of_run)
        target = recipe_from_lightning(pl_module if self.large is None else self.large, data, **of_run)
        if self.large is not None:
            target = target.replace(build=_checked(target.build, pl_module))
        carry = partial(transfer_rate, self.tuned_rate, source, target, rule=self.rule, **self.options)
        rate = None if self.set_rate else lightning_getattr(pl_module, name)
        report = report_on(carry, target, rate, energies=self.energies)
        # The rate is the attribute's value, and the module makes every group's.
        notes = tuple(note for note in report.carried.notes if not note.startswith(OF_GROUPS))
        return replace(report, carried=replace(report.carried, notes=notes))

    def _set_rate(self, trainer: Any, pl_module: Any, name: str) -> None:
        assert self.report is not None
        before, old = _rates(trainer), lightning_getattr(pl_module, name)
        lightning_setattr(pl_module, name, self.report.rate)
        if not hasattr(type(trainer.strategy), "deepspeed_engine"):  # whose engine holds the optimizers
            rebuild_optimizers(trainer)
            if _rates(trainer) == before and self.report.rate != old:
                warnings.warn(NOT_READ.format(name), stacklevel=2)


rate_callback = RateCallback  # as in the guides, where every trainer has a `rate_callback`


def rate_attribute(module: Any, attr_name: str) -> str:
    """The attribute of a module, of its hparams or of its DataModule that holds the rate.

    Args:
        module: A LightningModule in a run.
        attr_name: The name of the attribute. If empty, `lr` or `learning_rate`.

    Raises:
        DepthlrError: There is no such number.
    """
    names = [attr_name] if attr_name else ["lr", "learning_rate"]
    for name in names:
        if lightning_hasattr(module, name) and isinstance(lightning_getattr(module, name), Real):
            return name
    raise DepthlrError(NO_ATTRIBUTE.format(" or ".join(map(repr, names))))


def schedulers_of(trainer: Any) -> list[Any]:
    """The schedulers of a run.

    Args:
        trainer: A Trainer in a run.
    """
    return [config.scheduler for config in trainer.lr_scheduler_configs]


def rebuild_optimizers(trainer: Any) -> None:
    """Let the run's module make its optimizers and schedulers anew. They have no state before the first step.

    Args:
        trainer: A Trainer whose run begins.
    """
    trainer.strategy.setup_optimizers(trainer)
    trainer.strategy.setup_precision_plugin()


def _rates(trainer: Any) -> list[Any]:
    """All that a rate may be written into, apart from what schedulers keep in functions."""
    groups = [{**group, "params": None} for one in trainer.optimizers for group in one.param_groups]
    return [*groups, *(scheduler.state_dict() for scheduler in schedulers_of(trainer))]


def _checked(build: Any, pl_module: nn.Module) -> Any:
    """The builder of the run's module, whose shapes are compared with it."""

    def shapes(module: nn.Module) -> list[Any]:
        return [parameter.shape for parameter in module.parameters()]

    def checked() -> nn.Module:
        step: nn.Module = build()
        if not is_sharded(pl_module) and shapes(step) != shapes(pl_module):
            raise DepthlrError(OTHER_SHAPES)
        return step

    return checked
