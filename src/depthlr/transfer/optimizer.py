"""What a rule says of the user's optimizer: its family, its parameter groups, and optimizers that step together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.optim import SGD

from depthlr.energy.given_optimizer import LARGEST_GROUP, largest_rate, optimizers_of
from depthlr.errors import DepthlrError
from depthlr.law.rules import OPTIMIZER_FAMILIES, Family

UNEQUAL_GROUPS = (
    "the groups' rates, relative to the largest, are not the same in every model (down to {:.3g} and {:.3g}), as with "
    "layer-wise decay over other numbers of layers: carried rates were not compared with tuned ones there."
)
TWO_RATES = (
    "{} step together: their rates change by one factor, so their ratio is kept; how the best ratio changes with depth "
    "was not tested. Carried rates: {}."
)


def family_of(optimizer: Any, model: nn.Module | None) -> Family:
    """The family of an optimizer: "sgd" if its step is proportional to the gradient, else "adam".

    Args:
        optimizer: What `optimizers_of` takes.
        model: A factory is called with it. Without one it gets a small model, which most factories take.

    Raises:
        DepthlrError: The optimizer is another library's, whose family is not known.
    """
    if isinstance(optimizer, str) and optimizer in OPTIMIZER_FAMILIES:
        return OPTIMIZER_FAMILIES[optimizer]
    small = nn.utils.skip_init(nn.Linear, 2, 2)  # type: ignore[no-untyped-call]  # it draws no random numbers
    optimizers = optimizers_of(optimizer, small if model is None else model)
    if all(isinstance(one, SGD) for one in optimizers):
        return "sgd"
    if all(type(one).__module__.startswith("torch.optim") for one in optimizers):
        return "adam"
    names = ", ".join(type(one).__name__ for one in optimizers)
    raise DepthlrError(f"this rule depends on the optimizer, and {names} is not torch's: pass family='sgd' or 'adam'.")


def group_notes(ratios: Sequence[tuple[float, ...]]) -> list[str]:
    """Say to which group a carried rate belongs, and whether the groups differ between models.

    Args:
        ratios: The `rate_ratios` of each model.
    """
    notes = [] if set(ratios) <= {(1.0,)} else [LARGEST_GROUP]
    if len(set(ratios)) > 1:
        notes.append(UNEQUAL_GROUPS.format(ratios[0][-1], ratios[-1][-1]))
    return notes


def optimizer_shares(optimizer: Any, model: nn.Module | None) -> tuple[tuple[str, float], ...]:
    """Optimizers that step together, such as Muon for matrices and AdamW for the rest.

    Args:
        optimizer: What `optimizers_of` takes.
        model: The model whose parameters they hold. None if there are depths alone.

    Returns:
        The class of each and its largest rate, relative to the largest of all. Empty if there is one optimizer.
    """
    if model is None:
        return ()
    try:
        made = optimizers_of(optimizer, model)
    except DepthlrError:  # a factory that cannot make one for this model: a rule of depth does not need it
        return ()
    if len(made) < 2:
        return ()
    base = largest_rate(made)
    return tuple((type(one).__name__, largest_rate([one]) / base) for one in made)


def optimizer_notes(rate: float, shares: Sequence[tuple[str, float]]) -> list[str]:
    """How the rates of optimizers that step together change.

    Args:
        rate: The carried rate, which is that of the group with the largest rate.
        shares: Their `optimizer_shares`. If they are empty, there is no note.
    """
    if not shares:
        return []
    names = " and ".join(name for name, _ in shares)
    return [TWO_RATES.format(names, ", ".join(f"{name} {rate * share:.3g}" for name, share in shares))]
