"""How a cell is trained, and what it is judged by: the entries of a study's [training]. Checked when made."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.law.rules import SCHEDULES
from depthlr.optimizers import check_optimizer, make_optimizers
from depthlr.python_name import is_python_name, python_callable
from depthlr.training.augment import parse_augment
from depthlr.training.command import KEY, template_fields

WARMING = ("warmup", "warmup-cosine", "warmup-linear", "wsd")
COOLDOWN = 0.2  # share of the steps over which `wsd` decays, unless told otherwise
CHOICES = {
    "precision": ("fp32", "tf32", "bf16"),
    "metric": ("budget", "last_epoch", "validation"),
    "variance": ("gating", "he", "own"),
    "branch_scale": ("auto", "last", "each", "none"),
    "decay": ("all", "weights"),
    "muon": ("all", "hidden"),
}
OPTIMIZER_OPTIONS = ("weight_decay", "momentum", "betas", "eps", "decay", "muon")
LOSS = "cross_entropy"
NO_LENGTH = "training has neither of steps and epochs: give one of them, such as steps = 100."
MOMENTUM = 0.9
WARMUP = 0.1
COMMAND_ENTRIES = ("command", "result", "key", "shell")  # entries of a study that a command trains
MOST_STEPS = 10_000_000  # every step's loss is kept, and the order of examples is drawn before the first


def set_entries(frozen: Any, **values: Any) -> None:
    """Write the canonical form of entries into a frozen dataclass that is being made.

    Args:
        frozen: The dataclass.
        values: The entries.
    """
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


def entry(default: Any, checked: Callable[[str, Any], Any]) -> Any:
    """An entry of a study's table, as the field of a dataclass.

    Args:
        default: Its value unless given. If that is None, the entry may be left out.
        checked: Takes the entry's name and its value. It raises, or returns what is kept.
    """
    return field(default=default, metadata={"checked": checked})


def check_entries(frozen: Any, table: str) -> None:
    """Check the entries of a table that is being made, and keep what their checks return.

    Args:
        frozen: The dataclass.
        table: The name of the table.
    """
    for one in fields(frozen):
        value = getattr(frozen, one.name)
        if "checked" in one.metadata and not (value is None and one.default is None):
            set_entries(frozen, **{one.name: one.metadata["checked"](f"{table}.{one.name}", value)})


def _choice(name: str, default: str | None) -> Any:
    return entry(default, partial(check.one_of, known=CHOICES[name]))


def _optimizer(name: str, value: Any) -> str:
    check_optimizer(name, value)
    return str(value)


def _schedule(name: str, value: Any) -> str:
    return value if is_python_name(check.text(name, value)) else check.one_of(name, value, SCHEDULES)


def _loss(name: str, value: Any) -> str:
    if value != LOSS and not is_python_name(check.text(name, value)):
        raise DepthlrError(f"{name} is {value!r}: write {LOSS}, or your own as package.module:function.")
    return str(value)


def _two_numbers(name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise DepthlrError(f"{name} is {value!r}: give two numbers, such as [0.9, 0.95].")
    return tuple(_below_one(f"an entry of {name}", number) for number in value)


def _shares(name: str, value: Any) -> tuple[float, ...]:
    return tuple(check.share(f"an entry of {name}", share) for share in value)


_below_one = partial(check.number, below=1)
_length = partial(check.count, most=MOST_STEPS)


@dataclass(frozen=True)
class Training:
    """The length is given as steps or as epochs, not as both.

    If another program trains the cells, no length is given, and no entry but those of the command. An entry that is
    None does not count in a study's digest.
    """

    optimizer: str = entry("sgd", _optimizer)
    momentum: float | None = entry(None, _below_one)  # of the optimizer `momentum`
    weight_decay: float = entry(0.0, check.number)
    schedule: str = entry("constant", _schedule)  # a name, or package.module:function of the step number
    warmup: float | None = entry(None, check.number)  # below 1 a share of the steps, else a number of steps
    batch: int = entry(128, check.count)  # examples that one optimizer step sees
    steps: int | None = entry(None, _length)
    epochs: int | None = entry(None, _length)
    precision: str = _choice("precision", "fp32")
    metric: str = _choice("metric", "budget")  # mean loss of all steps, of the last epoch's, or loss on held-out data
    variance: str = _choice("variance", "gating")
    branch_scale: str = _choice("branch_scale", "auto")
    loss: str = entry(LOSS, _loss)  # or a function of the user's own, package.module:name, of output and target
    betas: tuple[float, float] | None = entry(None, _two_numbers)  # of Adam and AdamW, torch's unless given
    eps: float | None = entry(None, check.rate)  # of Adam and AdamW, torch's unless given
    decay: str | None = _choice("decay", None)  # "weights": weight decay leaves out norms, biases and embeddings
    # "hidden": embeddings and head by AdamW, Muon's update scaled to the size of AdamW's
    muon: str | None = _choice("muon", None)
    clip: float | None = entry(None, check.rate)  # largest norm of the whole gradient
    label_smoothing: float | None = entry(None, _below_one)
    # Parts into which a batch is split; gradients are averaged over them.
    accumulate: int | None = entry(None, check.count)
    ema: float | None = entry(None, _below_one)  # decay of the average of weights that is evaluated
    cooldown: float | None = entry(None, _below_one)  # share of the steps over which the schedule `wsd` decays
    # ("flip", "crop=4", "mixup=0.2"), or package.module:function
    augment: tuple[str, ...] | str | None = entry(None, lambda _, value: parse_augment(value))
    # Shares of the steps after which a run is evaluated, besides its end.
    evaluate_at: tuple[float, ...] | None = entry(None, _shares)
    command: str | None = None  # trains a cell, with {rate}, {size} and {seed}
    result: str | None = None  # the file into which the command writes the loss; else it prints it
    key: str | None = None  # the entry that holds the loss, `loss` unless given
    shell: bool | None = None  # let a shell read the command

    def __post_init__(self) -> None:
        self._check_command()
        if not self.has_length:
            self._check_nothing_else()
            return
        check_entries(self, "training")
        if self.steps is not None and self.epochs is not None:
            raise DepthlrError("training has both of steps and epochs: give one of them, such as steps = 100.")
        self._refuse_misplaced()
        if self.optimizer == "momentum" and self.momentum is None:
            set_entries(self, momentum=MOMENTUM)
        if self.schedule in WARMING:
            self._check_warmup(WARMUP if self.warmup is None else self.warmup)
        if self.schedule == "wsd" and self.cooldown is None:
            set_entries(self, cooldown=COOLDOWN)
        if self.accumulate is not None and self.batch % self.accumulate:
            raise DepthlrError(f"training.accumulate is {self.accumulate}: it must divide the batch of {self.batch}.")

    @property
    def has_length(self) -> bool:
        """Whether steps or epochs are given. If not, another program trains the cells."""
        return self.steps is not None or self.epochs is not None

    @property
    def run_steps(self) -> int:
        """Steps of one run. The length must be given in steps, as it is in every task."""
        if self.steps is None:
            raise DepthlrError("the length of a run is not given in steps: turn it into steps first.")
        return self.steps

    def make_optimizers(self, model: nn.Module, rate: float | Tensor, *, captured: bool = False) -> list[Optimizer]:
        """The optimizers of a model.

        Args:
            model: The model whose trainable parameters are stepped.
            rate: The rate of every group.
            captured: Use implementations whose step can be captured in a CUDA graph.
        """
        options = {name: getattr(self, name) for name in OPTIMIZER_OPTIONS}
        return make_optimizers(self.optimizer, model, rate, captured=captured, **options)

    def rate_factors(self) -> list[float]:
        """The schedule's factor on the rate at every step."""
        return factors_of(self.schedule, self.run_steps, self.warmup or 0.0, self.cooldown or 0.0)

    def evaluation_steps(self) -> tuple[int, ...]:
        """After how many steps a run is evaluated on held-out data: at the chosen shares and at its end."""
        steps = self.run_steps
        return tuple(sorted({max(1, round(share * steps)) for share in (*(self.evaluate_at or ()), 1.0)}))

    def _check_command(self) -> None:
        if self.command is None:
            for name in COMMAND_ENTRIES[1:]:
                self._refuse(name, "there is no training.command")
            return
        used = template_fields("training.command", self.command)
        if not used >= {"rate", "size"}:
            raise DepthlrError(f"training.command is {self.command!r}: write {{rate}} and {{size}} into it.")
        if not self.shell:
            try:
                shlex.split(self.command)
            except ValueError as error:
                raise DepthlrError(f"training.command is {self.command!r} ({error}): close the quotes.") from error
        if self.result is not None and not template_fields("training.result", self.result) >= used:
            names = ", ".join(f"{{{name}}}" for name in sorted(used))
            raise DepthlrError(f"training.result is {self.result!r}: write {names} into it, as every cell has a file.")
        if self.key is not None:
            check.text("training.key", self.key)
        set_entries(self, key=None if self.key == KEY else self.key, shell=self.shell or None)

    def _check_nothing_else(self) -> None:
        """Without steps and epochs nothing is trained here, so no entry may say how."""
        for one in fields(self):
            if one.name in COMMAND_ENTRIES or getattr(self, one.name) == one.default:
                continue
            if self.command is not None:
                raise DepthlrError(f"training.{one.name} is set beside training.command: pass it in the command.")
            raise DepthlrError(NO_LENGTH)

    def _refuse_misplaced(self) -> None:
        """Entries that only go with another one."""
        adam = self.optimizer in {"adam", "adamw", "muon"}
        takes_none, scheduled = f"{self.optimizer} takes none", f"the schedule is {self.schedule}"
        warming = f"leave it out, or choose {', '.join(WARMING[:-1])} or {WARMING[-1]}"
        for name, may_be_set, reason in (
            ("command", False, "steps or epochs are set too: the command has a length of its own"),
            ("momentum", self.optimizer == "momentum", f"{takes_none}: leave it out, or choose the optimizer momentum"),
            ("betas", adam, takes_none),
            ("eps", adam, takes_none),
            ("muon", self.optimizer == "muon", f"the optimizer is {self.optimizer}"),
            ("warmup", self.schedule in WARMING, f"{scheduled}: {warming}"),
            ("cooldown", self.schedule == "wsd", scheduled),
            ("label_smoothing", self.loss == LOSS, "it is of cross_entropy alone, and the loss is your own"),
        ):
            if not may_be_set:
                self._refuse(name, reason)

    def _check_warmup(self, length: float) -> None:
        mend = "give a share below 1, or a whole number of steps below training.steps"
        if length == 0:
            mend = f"give a share of the steps, such as {WARMUP}, or a schedule without a warm-up"
        if length == 0 or (length >= 1 and (length % 1 or (self.steps is not None and length >= self.steps))):
            raise DepthlrError(f"training.warmup is {length:g}: {mend}.")
        set_entries(self, warmup=length)

    def _refuse(self, name: str, reason: str) -> None:
        if getattr(self, name) is not None:
            raise DepthlrError(f"training.{name} is set, but {reason}.")


def factors_of(schedule: str, steps: int, warmup: float = 0.0, cooldown: float = 0.0) -> list[float]:
    """The factor of every step.

    Args:
        schedule: A name in `SCHEDULES`, or `package.module:function` of the step number, 0 at the first step.
        steps: How many steps a run takes.
        warmup: Steps over which the rate rises if at least 1, else a share of the steps.
        cooldown: Share of the steps over which `wsd` decays.
    """
    if is_python_name(schedule):
        function = python_callable(schedule)
        return [_checked(schedule, step, function(step)) for step in range(steps)]
    warm = 0
    if schedule in WARMING:
        warm = round(warmup) if warmup >= 1 else round(warmup * steps)
    decay_from = warm
    if schedule == "wsd":  # warm-up, stable, decay: constant after the warm-up, then linear over the cool-down
        decay_from = max(warm, steps - round(cooldown * steps))
    return [_factor(schedule, step, steps, warm, decay_from) for step in range(steps)]


def _factor(schedule: str, step: int, steps: int, warm: int, decay_from: int) -> float:
    """From 0 to 1 in the warm-up; after `decay_from`, from 1 to 0 after the last step."""
    rise = min(1.0, (step + 1) / warm) if warm else 1.0
    progress = max(0, step - decay_from) / max(1, steps - decay_from)
    if schedule.endswith("cosine"):
        return rise * (0.5 * (1 + math.cos(math.pi * progress)))
    if schedule.endswith("linear") or schedule == "wsd":
        return rise * (1 - progress)
    return rise


def _checked(name: str, step: int, factor: object) -> float:
    if not isinstance(factor, int | float) or not 0 <= factor < math.inf:
        raise DepthlrError(f"{name}({step}) returned {factor!r}: a schedule returns a finite factor of at least 0.")
    return float(factor)
