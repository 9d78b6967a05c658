"""The callback that `rate_callback` returns. It stands in a file of its own, because its base class is Lightning's."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from numbers import Real
from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from lightning.pytorch.utilities.parsing import lightning_getattr, lightning_hasattr, lightning_setattr
from torch import nn

from depthlr.energy.given_optimizer import LARGEST_GROUP
from depthlr.errors import DepthlrError
from depthlr.integrations.lightning import recipe_from_lightning, schedule_name, steps_of
from depthlr.integrations.trainer import RunReport, peak_rate, report_on, scale_rates, unscaled
from depthlr.law.carried_rate import CarriedRate
from depthlr.trace.interface import is_sharded
from depthlr.transfer.optimizer import CARRIED_RATES, OTHER_RATE
from depthlr.transfer.rules import Recipe, Rule, transfer_rate

OF_GROUPS = tuple(text.partition("{")[0] for text in (LARGEST_GROUP, OTHER_RATE, CARRIED_RATES))
OTHER_SHAPES = "large= builds parameters of other shapes than the module of the run has: let it build the same module."
UNSCALED = (
    "{} holds a rate of its own, which was not scaled: give the module the attribute lr, and let configure_optimizers "
    "read it."
)
NOT_READ = (
    "the rates of the run did not change with the module's {!r}: if configure_optimizers reads another attribute, "
    "pass its name as attr_name=."
)


class RateCallback(Callback):
    """Carries a rate to the run when it begins. `rate_callback` documents the arguments.

    Attributes:
        report: What is known of the rate. None before a run begins.
    """

    def __init__(
        self,
        tuned_rate: float,
        small: Any,
        large: Any,
        rule: str | Rule | None,
        set_rate: bool,
        attr_name: str,
        energies: bool,
        options: Mapping[str, Any],
    ) -> None:
        self.tuned_rate = tuned_rate
        self.small = small
        self.large = large
        self.rule = rule
        self.set_rate = set_rate
        self.attr_name = attr_name
        self.energies = energies
        self.options = dict(options)
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
            if self.report is not None and self.set_rate and name is not None:
                lightning_setattr(pl_module, name, self.report.rate)
                rebuild_optimizers(trainer)
            held = "" if self.report is None else f": {self.report.carried}"
            rank_zero_info(f"depthlr: the run goes on at the rate of its checkpoint{held}")
            return
        rate: Any = (
            lightning_getattr(pl_module, name) if name else peak_rate(trainer.optimizers, schedulers_of(trainer))
        )
        self.report = self._measure(trainer, pl_module, None if self.set_rate else rate)
        if name is not None:
            carried = self.report.carried
            # The rate is the attribute's value, and the module makes every group's.
            notes = tuple(note for note in carried.notes if not note.startswith(OF_GROUPS))
            self.report = replace(self.report, carried=replace(carried, notes=notes))
        if self.set_rate:
            self._set_rate(trainer, pl_module, name, rate)
        rank_zero_info(f"depthlr: {self.report.carried}")
        if (sentence := self.report.warning()) is not None:
            rank_zero_warn(sentence)
        for logger in trainer.loggers:
            values = self.report.values()
            logger.log_metrics({name: value for name, value in values.items() if not isinstance(value, str)}, 0)

    def _measure(self, trainer: Any, pl_module: Any, rate: float | None) -> RunReport:
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
        energies = self.energies and pl_module.automatic_optimization
        carry = partial(transfer_rate, self.tuned_rate, source, target, rule=self.rule, **self.options)
        return report_on(carry, target, rate, energies=energies)

    def _set_rate(self, trainer: Any, pl_module: Any, name: str | None, old: float) -> None:
        assert self.report is not None
        rate = self.report.rate
        if name is not None:
            lightning_setattr(pl_module, name, rate)
            if not hasattr(type(trainer.strategy), "deepspeed_engine"):  # whose engine holds the optimizers
                before = _rates(trainer)
                rebuild_optimizers(trainer)
                if _rates(trainer) == before and rate != old:
                    warnings.warn(NOT_READ.format(name), stacklevel=2)
                return
        kinds = unscaled(trainer.optimizers, schedulers_of(trainer), rate / old)
        scale_rates(trainer.optimizers, schedulers_of(trainer), rate / old)
        if kinds:
            warnings.warn(UNSCALED.format(" and ".join(kinds)), stacklevel=2)


def rate_attribute(module: Any, attr_name: str = "") -> str | None:
    """The attribute of a module, of its hparams or of its DataModule that holds the rate, or None.

    Args:
        module: A LightningModule in a run.
        attr_name: The name of the attribute. If empty, `lr` or `learning_rate`.
    """
    for name in [attr_name] if attr_name else ["lr", "learning_rate"]:
        if lightning_hasattr(module, name) and isinstance(lightning_getattr(module, name), Real):
            return name
    if attr_name:
        raise DepthlrError(f"the module and its hparams have no number {attr_name!r}: name the attribute they have.")
    return None


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
