"""What the rules say of two recipes that differ in more than the model, and of the user's optimizers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn
from torch.optim import SGD

from depthlr.energy.step import LARGEST_GROUP, OwnRates, optimizers_of, own_rates
from depthlr.errors import DepthlrError
from depthlr.law.carried_rate import CarriedRate
from depthlr.law.rules import OPTIMIZER_FAMILIES, Family
from depthlr.transfer.recipe import Recipe

UNEQUAL_GROUPS = (
    "the groups' rates, relative to the largest, are not the same in every model (down to {:.3g} and {:.3g}), as with "
    "layer-wise decay over other numbers of layers: carried rates were not compared with tuned ones there."
)
TOGETHER = (
    "{} step together: their rates change by one factor, so their ratio is kept; how the best ratio changes with depth "
    "was not tested."
)
OTHER_RATE = "the optimizers' largest rate is {:.3g}, not {:.3g}: multiply your own rates by the factor {:.3g}."
CARRIED_RATES = "carried rates: {}."
OTHER_RUN = (
    "{} differ ({} against {}), and the rules change depth alone: tune the source as the target will be trained."
)
SAME_STEPS = 1.5  # numbers of steps that differ by less count as equal


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
        ratios: The `OwnRates.ratios` of each model.
    """
    return [*([] if set(ratios) <= {(1.0,)} else [LARGEST_GROUP]), *_unequal_groups(ratios)]


def _unequal_groups(ratios: Sequence[tuple[float, ...]]) -> list[str]:
    return [UNEQUAL_GROUPS.format(ratios[0][-1], ratios[-1][-1])] if len(set(ratios)) > 1 else []


def with_recipe_notes(
    carried: CarriedRate, source: Recipe, target: Recipe, rates: Sequence[OwnRates | None]
) -> CarriedRate:
    """The carried rate with notes on the optimizers, and out of scope if the recipes differ in more than the model.

    Args:
        carried: What a rule carried.
        source: The recipe that was tuned.
        target: The recipe that needs a rate.
        rates: Those of the source's and of the target's optimizers, None where there is no model to make them for.
    """
    known = [one for one in rates if one is not None and one.groups]  # a frozen model has none
    reasons = [*_differences(source, target, known), *_unequal_groups([one.ratios for one in known])]
    notes = _optimizer_notes(carried, known[0], known[-1]) if known else []
    carried = carried.out_of_scope(reasons)
    return replace(carried, notes=tuple(dict.fromkeys((*carried.notes, *notes))))


def rates_of(recipe: Recipe, model: nn.Module | None) -> OwnRates | None:
    """The rates of a recipe's optimizers. None where there is no model to make them for, as for a depth.

    Args:
        recipe: Its optimizer is made.
        model: The model that it steps.
    """
    return None if model is None else own_rates(optimizers_of(recipe.optimizer, model))


def _differences(source: Recipe, target: Recipe, rates: Sequence[OwnRates]) -> list[str]:
    """One sentence for each entry of two runs that differs, where both are known."""
    optimizers: list[Any] = [source.optimizer, target.optimizer]
    if not all(isinstance(one, str) for one in optimizers):
        optimizers = [" and ".join(one.names) for one in rates] if len(rates) > 1 else [None, None]
    steps = source.steps, target.steps
    if None not in steps and max(steps) < SAME_STEPS * min(steps):  # type: ignore[type-var,operator]
        steps = None, None
    entries = {"steps": steps, "schedules": (source.schedule, target.schedule), "optimizers": tuple(optimizers)}
    return [OTHER_RUN.format(name, *both) for name, both in entries.items() if None not in both and both[0] != both[1]]


def _optimizer_notes(carried: CarriedRate, source: OwnRates, target: OwnRates) -> list[str]:
    """How the rates of groups, and of optimizers that step together, change."""
    unequal, together = len(target.ratios) > 1, len(target.names) > 1
    tuned = carried.rate / carried.factor
    other = unequal and not math.isclose(tuned, source.largest, rel_tol=0.01)
    largest = source.largest * carried.factor if other else carried.rate
    listed: dict[str, list[str]] = {}
    for name, ratio in sorted(target.groups, key=lambda group: -group[1]):
        listed.setdefault(name, []).append(f"{largest * ratio:.3g}")
    rates = ", ".join(f"{name} {' and '.join(values)}" for name, values in listed.items())
    notes = {
        LARGEST_GROUP: unequal and not other,
        TOGETHER.format(" and ".join(target.names)): together,
        OTHER_RATE.format(source.largest, tuned, carried.factor): other,
        CARRIED_RATES.format(rates): unequal or together,
    }
    return [note for note, applies in notes.items() if applies]
