"""The optimizer that the user gives: a name, an object, or a factory; and the rates of its parameter groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn
from torch.optim import Optimizer

from depthlr.errors import DepthlrError, one_sentence_errors
from depthlr.optimizers import OPTIMIZERS, named_optimizers

OWN_FACTORY = "lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3)"
LARGEST_GROUP = "it is the rate of the parameter group with the largest rate; the others keep their ratios to it."


def optimizers_of(optimizer: Any, model: nn.Module) -> list[Optimizer]:
    """One optimizer or several, as a list.

    Args:
        optimizer: An optimizer of this model, a list of them, a name, an optimizer's class, or a factory: a function
            that takes the model and returns what `torch.optim` or Lightning's `configure_optimizers` would.
        model: The model whose own parameters a name, a class or a factory puts into groups.
    """
    if isinstance(optimizer, str):
        optimizer = named_optimizers(optimizer, model)
    made = _call_factory(optimizer, model) if fits_any_model(optimizer) else optimizer
    if isinstance(made, tuple) and len(made) == 2 and all(isinstance(part, list) for part in made):
        made = made[0]  # Lightning: optimizers and schedulers
    optimizers = []
    for one in made if isinstance(made, Sequence) else [made]:
        if isinstance(one, Mapping):  # Lightning: {"optimizer": ..., "lr_scheduler":}
            one = one.get("optimizer", one)
        optimizers.append(one)
        if not isinstance(one, Optimizer):
            raise DepthlrError(
                f"optimizer is a {type(one).__name__}: pass a torch.optim object, a list of them, a factory that takes "
                f"the model, or one of {', '.join(OPTIMIZERS)}."
            )
    return optimizers


def _call_factory(factory: Callable[[Any], Any], model: nn.Module) -> Any:
    """A class takes parameters, and any other factory takes the model, so that it can group parameters by name."""
    made_by = factory.func if isinstance(factory, partial) else factory
    of_class = isinstance(made_by, type) and issubclass(made_by, Optimizer)
    with one_sentence_errors(
        f"a factory is given the model, such as {OWN_FACTORY}; the optimizer could not be made for this model"
    ):
        return factory(list(model.parameters()) if of_class else model)


def fits_any_model(optimizer: Any) -> bool:
    """Is this a name or a callable, which give every model an optimizer of its own?"""
    return isinstance(optimizer, str) or (callable(optimizer) and not isinstance(optimizer, Optimizer))


def check_fits_any_model(optimizer: Any) -> None:
    """Raise if the optimizer is bound to one model. New models need optimizers of their own."""
    if not fits_any_model(optimizer):
        raise DepthlrError(f"the optimizer is bound to one model: pass a factory such as {OWN_FACTORY}.")


def has_stepped(optimizer: Optimizer) -> bool:
    """Has this optimizer taken a step? Adagrad has state before its first step, with step = 0."""
    return any(float(slots.get("step", 1)) > 0 for slots in optimizer.state.values() if slots)


def group_moves(group: Mapping[str, Any]) -> bool:
    """Does a step change any parameter of the group?"""
    return step_rate(group) > 0 and any(parameter.requires_grad for parameter in group["params"])


@dataclass(frozen=True)
class OwnRates:
    """The rates that the user's optimizers have of their own.

    Args:
        largest: The largest rate of a parameter group.
        groups: The class of an optimizer and the rate of a group over the largest, each pair once.
    """

    largest: float
    groups: tuple[tuple[str, float], ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """The rates over the largest: each once, to six digits, from large to small."""
        return tuple(sorted({ratio for _, ratio in self.groups}, reverse=True))

    @property
    def names(self) -> tuple[str, ...]:
        """The classes of the optimizers."""
        return tuple(dict.fromkeys(name for name, _ in self.groups))


def own_rates(optimizers: Iterable[Optimizer]) -> OwnRates:
    """The rates of the parameter groups that move.

    Args:
        optimizers: Those that step together.
    """
    moved = [(type(one).__name__, group) for one in optimizers for group in one.param_groups if group_moves(group)]
    largest = max((given_rate(group) for _, group in moved), default=1.0)
    groups = ((name, float(f"{step_rate(group) / largest:.6g}")) for name, group in moved)
    return OwnRates(largest, tuple(dict.fromkeys(groups)))


def largest_rate(optimizers: Iterable[Optimizer]) -> float:
    """The largest rate that the user gave to a parameter group, before a scheduler changed it."""
    return max(given_rate(group) for one in optimizers for group in one.param_groups)


def given_rate(group: Mapping[str, Any]) -> float:
    """The rate that the user gave to a parameter group, before a scheduler changed it; under OneCycleLR the peak."""
    return float(group.get("max_lr", group.get("initial_lr", group["lr"])))


def step_rate(group: Mapping[str, Any]) -> float:
    """The rate at which a parameter group steps."""
    # timm keeps one lr in all groups, and its schedulers multiply it by each group's lr_scale (layer-wise decay).
    return given_rate(group) * float(group.get("lr_scale", 1.0))
