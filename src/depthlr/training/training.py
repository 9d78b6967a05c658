"""How a cell is trained, and what it is judged by: the entries of a study's [training]. Checked when made."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.optimizers import check_optimizer, make_optimizers
from depthlr.python_name import is_python_name
from depthlr.training.augment import parse_augment
from depthlr.training.command import KEY, template_fields
from depthlr.training.schedule import COOLDOWN, SCHEDULES, WARMING, factors_of

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


@dataclass(frozen=True)
class Training:
    """The length is given as steps or as epochs, not as both.

    If another program trains the cells, no length is given, and no entry but those of the command. An entry that is
    None does not count in a study's digest.
    """

    optimizer: str = "sgd"
    momentum: float | None = None  # of the optimizer `momentum`
    weight_decay: float = 0.0
    schedule: str = "constant"  # a name, or package.module:function of the step number
    warmup: float | None = None  # below 1 a share of the steps, else a number of steps
    batch: int = 128  # examples that one optimizer step sees
    steps: int | None = None
    epochs: int | None = None
    precision: str = "fp32"
    metric: str = "budget"  # mean loss of every step, of the last epoch's steps, or the loss on held-out data
    variance: str = "gating"
    branch_scale: str = "auto"
    loss: str = LOSS  # or a function of the user's own, package.module:name, of output and target
    betas: tuple[float, float] | None = None  # of Adam and AdamW, torch's unless given
    eps: float | None = None  # of Adam and AdamW, torch's unless given
    decay: str | None = None  # "weights": weight decay leaves out norms, biases and embeddings
    muon: str | None = None  # "hidden": embeddings and head by AdamW, Muon's update scaled to the size of AdamW's
    clip: float | None = None  # largest norm of the whole gradient
    label_smoothing: float | None = None
    accumulate: int | None = None  # parts into which a batch is split; gradients are averaged over them
    ema: float | None = None  # decay of the average of weights that is evaluated
    cooldown: float | None = None  # share of the steps over which the schedule `wsd` decays
    augment: tuple[str, ...] | str | None = None  # ("flip", "crop=4", "mixup=0.2"), or package.module:function
    evaluate_at: tuple[float, ...] | None = None  # shares of the steps after which a run is evaluated, besides its end
    command: str | None = None  # trains a cell, with {rate}, {size} and {seed}
    result: str | None = None  # the file into which the command writes the loss; else it prints it
    key: str | None = None  # the entry that holds the loss, `loss` unless given
    shell: bool | None = None  # let a shell read the command

    def __post_init__(self) -> None:
        self._check_command()
        if not self.has_length:
            self._check_nothing_else()
            return
        self._check_names()
        self._refuse_misplaced()
        if self.optimizer == "momentum" and self.momentum is None:
            set_entries(self, momentum=MOMENTUM)
        if self.schedule in WARMING and self.warmup is None:
            set_entries(self, warmup=WARMUP)
        if self.schedule == "wsd" and self.cooldown is None:
            set_entries(self, cooldown=COOLDOWN)
        for entry, checked in CHECKS.items():
            if getattr(self, entry) is not None:
                set_entries(self, **{entry: checked(f"training.{entry}", getattr(self, entry))})
        if self.steps is not None and self.epochs is not None:
            raise DepthlrError("training has both of steps and epochs: give one of them, such as steps = 100.")
        if self.accumulate is not None and self.batch % self.accumulate:
            raise DepthlrError(f"training.accumulate is {self.accumulate}: it must divide the batch of {self.batch}.")
        if self.warmup is not None:
            self._check_warmup(self.warmup)

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

    def for_steps(self, steps: int) -> Training:
        """The same training with its length in steps.

        Args:
            steps: The steps of one run.
        """
        return replace(self, steps=steps, epochs=None)

    def evaluation_steps(self) -> tuple[int, ...]:
        """After how many steps a run is evaluated on held-out data: at the chosen shares and at its end."""
        steps = self.run_steps
        return tuple(sorted({max(1, round(share * steps)) for share in (*(self.evaluate_at or ()), 1.0)}))

    def _check_command(self) -> None:
        if self.command is None:
            for entry in COMMAND_ENTRIES[1:]:
                self._refuse(entry, "there is no training.command")
            return
        used = template_fields("training.command", self.command)
        if not used >= {"rate", "size"}:
            raise DepthlrError(
                f"training.command is {self.command!r}: write {{rate}} and {{size}} where the script takes the "
                "learning rate and the size of the model."
            )
        if not self.shell:
            try:
                shlex.split(self.command)
            except ValueError as error:
                raise DepthlrError(f"training.command is {self.command!r} ({error}): close the quotes.") from error
        if self.result is not None and not template_fields("training.result", self.result) >= used:
            names = ", ".join(f"{{{name}}}" for name in sorted(used))
            raise DepthlrError(
                f"training.result is {self.result!r}: write {names} into it, so that every cell has its own file."
            )
        if self.key is not None:
            check.text("training.key", self.key)
        if not isinstance(self.shell, bool | None):
            raise DepthlrError(f"training.shell is {self.shell!r}: write true or false.")
        set_entries(self, key=None if self.key == KEY else self.key, shell=self.shell or None)

    def _check_nothing_else(self) -> None:
        """Without steps and epochs nothing is trained here, so no entry may say how."""
        for entry in fields(self):
            if entry.name in COMMAND_ENTRIES or getattr(self, entry.name) == entry.default:
                continue
            if self.command is not None:
                raise DepthlrError(f"training.{entry.name} is set beside training.command: pass it in the command.")
            raise DepthlrError(NO_LENGTH)

    def _check_names(self) -> None:
        """Entries that are one of a few words, or the user's own `package.module:function`."""
        if self.loss != LOSS and not is_python_name(check.text("training.loss", self.loss)):
            raise DepthlrError(f"training.loss is {self.loss!r}: write {LOSS}, or your own as package.module:function.")
        check_optimizer("training.optimizer", self.optimizer)
        if not is_python_name(check.text("training.schedule", self.schedule)):
            check.one_of("training.schedule", self.schedule, SCHEDULES)
        for entry, known in CHOICES.items():
            if getattr(self, entry) is not None:
                check.one_of(f"training.{entry}", getattr(self, entry), known)

    def _refuse_misplaced(self) -> None:
        """Entries that only go with another one."""
        adam = self.optimizer in {"adam", "adamw", "muon"}
        takes_none, scheduled = f"{self.optimizer} takes none", f"the schedule is {self.schedule}"
        warming = f"leave it out, or choose {', '.join(WARMING[:-1])} or {WARMING[-1]}"
        for entry, may_be_set, reason in (
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
                self._refuse(entry, reason)

    def _check_warmup(self, length: float) -> None:
        if length == 0:
            raise DepthlrError(
                f"training.warmup is 0: give a share of the steps, such as {WARMUP}, or a schedule without a warm-up."
            )
        if length >= 1 and (length != round(length) or (self.steps is not None and length >= self.steps)):
            raise DepthlrError(
                f"training.warmup is {length:g}: give a share below 1, or a whole number of steps below training.steps."
            )

    def _refuse(self, entry: str, reason: str) -> None:
        if getattr(self, entry) is not None:
            raise DepthlrError(f"training.{entry} is set, but {reason}.")


def _two_numbers(name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise DepthlrError(f"{name} is {value!r}: give two numbers, such as [0.9, 0.95].")
    return tuple(_below_one(f"an entry of {name}", number) for number in value)


def _shares(name: str, value: Any) -> tuple[float, ...]:
    return tuple(check.share(f"an entry of {name}", share) for share in value)


_below_one = partial(check.number, below=1)
_length = partial(check.count, most=MOST_STEPS)
# What the other entries may be, and how they are kept.
CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "steps": _length,
    "epochs": _length,
    "batch": check.count,
    "accumulate": check.count,
    "momentum": _below_one,
    "weight_decay": check.number,
    "warmup": check.number,
    "cooldown": _below_one,
    "betas": _two_numbers,
    "eps": check.rate,
    "clip": check.rate,
    "label_smoothing": _below_one,
    "ema": _below_one,
    "augment": lambda _, value: parse_augment(value),
    "evaluate_at": _shares,
}


def set_entries(frozen: Any, **values: Any) -> None:
    """Write the canonical form of entries into a frozen dataclass that is being made.

    Args:
        frozen: The dataclass.
        values: The entries.
    """
    for name, value in values.items():
        object.__setattr__(frozen, name, value)
