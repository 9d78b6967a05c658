"""Carrying a rate from the model that was tuned to one of another depth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

from torch import nn
from torch.optim import SGD

from depthlr.energy.batches import (
    ALIKE,
    EVALUATED,
    Build,
    LossFn,
    Shares,
    batches_of,
    built,
    depth_on,
    draws,
    draws_anew,
    shares,
    split,
)
from depthlr.energy.energy import LIMIT, Energy, EnergyOverSeeds, update_energy
from depthlr.energy.persistent import SEEDS, UNSURE, DrawnRate, persistent_energies, rate_over_draws, strange_size
from depthlr.energy.progress import measuring
from depthlr.energy.step import LARGEST_GROUP, OWN_FACTORY, is_factory, optimizers_of, rate_ratios
from depthlr.errors import DepthlrError
from depthlr.init.plan import follows_plan, init_plan
from depthlr.law.carried_rate import AS_INIT, AS_IT_IS, OTHER_INIT, UNSEEN, CarriedRate, carried_by
from depthlr.law.domain import MOST_SEED, positive, whole
from depthlr.law.domain import carried as finite_rate
from depthlr.law.evidence import ADAPTIVE
from depthlr.law.pathsum import pathsum_transfer
from depthlr.law.rules import OPTIMIZER_FAMILIES, RULES, Family, carry, rule_named
from depthlr.trace.depth import Depth, Units, effective_depth
from depthlr.trace.run import check_runnable, is_sharded, random_states_kept
from depthlr.transfer.measured_change import measured_change
from depthlr.transfer.missed import compared, measured_within

MEASURED = (
    "What batches agree on moves the readout, relative to its size, as far at the target as at the source. Both models "
    "must be initialised as they will be trained. Over several initialisations the law is leant on as far as these "
    "scatter, which is wrong where a forward multiplier makes up for depth."
)
AM_MUP = (
    "The best rate keeps the mean energy of the first step what it was at the source (AM-muP). Both models must be "
    "initialised as they will be trained; nothing is assumed about how energy depends on depth or width."
)
NOISY = "the batches agree on hardly anything, so the measured rate is a guess: take more or larger ones."
NOT_COMPARED = (
    "carried rates were compared with tuned ones across depth, and across width where it grows with depth and no more: "
    "between these models there is no interval."
)
UNEQUAL_GROUPS = (
    "the groups' rates, relative to the largest, are not the same in every model (down to {:.3g} and {:.3g}), as with "
    "layer-wise decay over other numbers of layers: carried rates were not compared with tuned ones there."
)
MUCH = 0.25  # of what is carried, by the law: worth a note
MEASURING = {"measured": MEASURED, "am-mup": AM_MUP}  # rules that look at the models themselves
Energies = Energy | EnergyOverSeeds
Place = int | float | Depth | nn.Module | Build | Energies


def transfer_rate(
    rate: float,
    source: Place,
    target: Place,
    example: Any = None,
    *,
    rule: str | None = None,
    batches: Any = None,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    family: Family | None = None,
    aggregate: str = "arithmetic",
    seed: int = 0,
    seeds: int = SEEDS,
    units: Units = None,
) -> CarriedRate:
    """The rate for `target`, from the rate tuned on `source`: two depths, two models, or one of each.

    With `batches`, `loss_fn` and an `optimizer` (as in `update_energy`, but not bound to one model) the models are
    measured (`rule="measured"`). Pass functions that build them, and the mean over `seeds` initialisations counts, not
    one draw: as far as these scatter, the law is leant on, and a note says so where that is much. Else the law carries
    the rate, and models, or what functions build, are counted on the `example` or the first of `batches` (`units`: as
    in `effective_depth`).
    `rule="am-mup"` compares mean update energies (`aggregate`: of which mean), also energies that were measured before;
    the other rules are in `depthlr.law.RULES`. Initialise both models by `init_` for the law, and as they will be
    trained for `measured`; the result's `in_scope` says whether what the rule assumes was found. What speaks against
    the rate is in `notes`, which printing it shows.

    Intervals were calibrated on runs of 100 to 200 steps; longer runs with warm-up and decay want a much flatter
    exponent (-0.06 to -0.58 over effective depth in four recipes that were tuned).
    """
    rate = positive(rate, "The rate")
    seed = whole(seed, "The seed", most=MOST_SEED)
    rule = rule or ("law" if batches is None else "measured")
    if rule in MEASURING:
        places = [_place(place, rule) for place in (source, target)]
        if any(not isinstance(place, Energies) for place in places):
            _check_measuring(rule, batches, optimizer)
    if rule == "measured":
        drawn = any(not isinstance(place, nn.Module) for place in places)
        names = range(seed, seed + (whole(seeds, "The number of seeds", least=1) if drawn else 1))
        given = shares(batches, len(names), None, seed)
        return _measured(rate, places, given, loss_fn, optimizer, names, units)
    if rule == "am-mup":
        return _am_mup(rate, places, batches, loss_fn, optimizer, aggregate, seed, units)
    if rule not in RULES:
        raise DepthlrError(f"There is no rule {rule!r}: choose one of {', '.join((*MEASURING, *RULES))}.")
    chosen = rule_named(rule)
    batch = batches_of(batches, 1, 1, seed)[0] if example is None and batches is not None else None
    (here, first), (there, second) = (_seen(place, example, batch, units) for place in (source, target))
    alike = chosen.exponent_sgd == chosen.exponent_adam and not chosen.counts_paths
    kind: Family = "sgd" if alike else family or family_of(optimizer, (source, target))
    if chosen.counts_paths:
        if kind != "sgd":
            raise DepthlrError(f"The rule {rule!r} is about SGD: its authors prescribe nothing for other optimizers.")
        if not (here.units and there.units):
            raise DepthlrError(f"The rule {rule!r} counts paths and needs models, not depths: pass both models.")
        counts = [(d.plain, d.residual) for d in (here, there)]
        new = pathsum_transfer(rate, source=counts[0], target=counts[1])
    else:
        depths = [
            d.residual if chosen.over_updates and here.residual and there.residual else d.total for d in (here, there)
        ]
        new = carry(chosen, rate, depths[0], depths[1], kind)
    adaptive = rule == "law" and _is_adaptive(optimizer, family, (source, target))
    return carried_by(
        chosen,
        rate,
        new,
        here.total,
        there.total,
        outside=_notes(here, there),
        facts={*here.norms, *there.norms, *([ADAPTIVE] if adaptive else [])},
        initialization=next((init for init in (OTHER_INIT, AS_INIT) if init in (first, second)), UNSEEN),
    )


def family_of(optimizer: Any, places: Sequence[Any] = ()) -> Family:
    """Which family of rules an optimizer belongs to: steps proportional to the gradient, or not.

    Args:
        optimizer: What `optimizers_of` takes.
        places: A factory is called with the first model among these, or what a function among them builds.
    """
    if isinstance(optimizer, str) and optimizer in OPTIMIZER_FAMILIES:
        return OPTIMIZER_FAMILIES[optimizer]
    optimizers = optimizers_of(optimizer, _model_among(places))
    if all(isinstance(one, SGD) for one in optimizers):
        return "sgd"
    if all(type(one).__module__.startswith("torch.optim") for one in optimizers):
        return "adam"
    names = ", ".join(type(one).__name__ for one in optimizers)
    raise DepthlrError(f"this rule depends on the optimizer, and {names} is not torch's: pass family='sgd' or 'adam'.")


def _model_among(places: Sequence[Any]) -> nn.Module:
    for place in places:
        if isinstance(place, nn.Module):
            return place
        if callable(place):
            with random_states_kept():
                return built(place)
    return nn.Linear(2, 2)  # of depths alone nothing more is known, and most factories take any model


def _is_adaptive(optimizer: Any, family: Family | None, places: Sequence[Any]) -> bool:
    """Is it known that the step does not grow with the gradient?"""
    try:
        return (family or family_of(optimizer, places)) == "adam"
    except DepthlrError:
        if isinstance(optimizer, str):
            raise
        return False  # another library's optimizer, or a factory that cannot make one for this model


def _seen(place: Place, example: Any, batch: Any, units: Units) -> tuple[Depth, str]:
    """A place's depth, and how its weights are initialised."""
    if isinstance(place, Depth):
        return place, UNSEEN
    if isinstance(place, nn.Module):
        return _counted(place, example, batch, units)
    if isinstance(place, Energy | EnergyOverSeeds):
        return Depth(len(place.units), len(place.units)), UNSEEN
    if callable(place):
        with random_states_kept():
            model = built(place)
        return _counted(model, example, batch, units)
    if isinstance(place, bool) or not isinstance(place, Real) or not float(place) > 0:
        raise DepthlrError(f"a source or target is a model or a depth above 0, not {place!r}.")
    return Depth(place, place), UNSEEN  # fractional depths are fine for arithmetic


def _counted(model: nn.Module, example: Any, batch: Any, units: Units) -> tuple[Depth, str]:
    if example is None:
        if batch is None:
            raise DepthlrError("counting a model's depth needs an example input: pass example= or batches=.")
        check_runnable(model)
        (positional, named), _ = split(batch, next(model.parameters()).device)
        example = named or positional
    return effective_depth(model, example, units=units), _initialization(model, example)


def _initialization(model: nn.Module, example: Any) -> str:
    if is_sharded(model) or any(parameter.is_meta for parameter in model.parameters()):
        return UNSEEN
    try:
        plan = init_plan(model, example)
    except DepthlrError:  # a recurrent model, whose depth the user gives by units=
        return UNSEEN
    return AS_INIT if follows_plan(model, plan) else OTHER_INIT


def _notes(here: Depth, there: Depth) -> list[str]:
    notes = list(dict.fromkeys(here.flags + there.flags))
    if widths := here.other_widths(there):
        notes.append(
            f"widths differ ({widths}): the rules know depth alone, and the best rate also falls "
            "with width; use the rule 'measured' or models of one width."
        )
    if here.units and here.total == there.total:
        notes.append(
            f"both models have {here.total} units, so no rate changes: if one is deeper, units= counts your own blocks."
        )
    return notes


def _place(place: Place, rule: str) -> nn.Module | Build | Energies:
    if isinstance(place, nn.Module) or (rule == "am-mup" and isinstance(place, Energies)):
        return place
    if callable(place):
        if rule == "am-mup":
            raise DepthlrError("The rule 'am-mup' takes models, or energies from update_energy_over_seeds.")
        return place
    raise DepthlrError(f"The rule {rule!r} measures and needs two models, not {type(place).__name__}s.")


def _check_measuring(rule: str, batches: Any, optimizer: Any) -> None:
    if batches is None:
        raise DepthlrError(f"The rule {rule!r} needs batches= for the step it measures.")
    if not is_factory(optimizer):
        raise DepthlrError(f"the optimizer is bound to one model: pass a factory such as {OWN_FACTORY}.")


def _measured(
    rate: float,
    places: Sequence[Any],
    batches: Shares,
    loss_fn: Any,
    optimizer: Any,
    names: range,
    units: Units,
) -> CarriedRate:
    drawn: list[DrawnRate] = []
    depths: list[Depth] = []
    ratios: list[tuple[float, ...]] = []
    notes = []
    models = {
        name: iter([place]) if isinstance(place, nn.Module) else draws(place, names)
        for name, place in zip(("source", "target"), places, strict=True)
    }
    initializations = sum(1 if isinstance(place, nn.Module) else len(names) for place in places)
    with measuring(initializations * batches.size):
        energies = persistent_energies(models, batches, loss_fn, optimizer, seed=names[0])
    for place, measured in zip(places, energies, strict=True):
        found = rate_over_draws(measured)
        if isinstance(place, nn.Module):
            model = place
        else:
            anew = draws_anew(place)
            found = found if anew else replace(found, standard_error=None)  # one draw, however often
            notes += [] if anew else [ALIKE]
            with random_states_kept():
                model = built(place)
        drawn.append(found)
        notes += [] if model.training else [EVALUATED]
        notes += [strange] if (strange := strange_size(measured)) else []
        depths.append(depth_on(model, batches.first, units))
        ratios.append(group_ratios(optimizer, model))
    here, there = drawn
    source, target = (depth.total for depth in depths)
    change = measured_change(here, there, source, target, one_width=not depths[0].other_widths(depths[1]))
    if here.noisy or there.noisy:
        notes.append(NOISY)
    notes += [] if compared(*depths) else [NOT_COMPARED]
    notes += group_notes(ratios)
    known = not set(notes) - {ALIKE, LARGEST_GROUP}  # how far such rates miss: not of guesses and models in eval mode
    error = change.standard_error
    if error is not None and (error > UNSURE or change.law_share > MUCH):
        notes.append(
            "initialisations scatter, as those of narrow models and deep plain stacks do: the measured change is known "
            f"to {error:.2f} decades (one standard error), and the law counts for {change.law_share:.0%} of what is "
            "carried; take more seeds or a wider model."
        )
    moved = finite_rate(rate * change.factor, f"depth {source:g}", f"depth {target:g}")
    carried = CarriedRate(
        moved,
        "measured",
        source,
        target,
        change.factor,
        MEASURED,
        tuple(dict.fromkeys(notes)),
        in_scope=known,
        initialization=AS_IT_IS,
    )
    return carried.within(measured_within(change, source, target)) if known else carried


def group_ratios(optimizer: Any, model: nn.Module) -> tuple[float, ...]:
    """The rates of a model's parameter groups over the largest, as the optimizer's factory sets them."""
    return rate_ratios(optimizers_of(optimizer, model))


def group_notes(ratios: Sequence[tuple[float, ...]]) -> list[str]:
    """Of which group a carried rate is, and whether the models' groups differ; `ratios` has one entry per model."""
    notes = [] if set(ratios) <= {(1.0,)} else [LARGEST_GROUP]
    if len(set(ratios)) > 1:
        notes.append(UNEQUAL_GROUPS.format(ratios[0][-1], ratios[-1][-1]))
    return notes


def _am_mup(
    rate: float,
    places: Sequence[Any],
    batches: Any,
    loss_fn: Any,
    optimizer: Any,
    aggregate: str,
    seed: int,
    units: Units,
) -> CarriedRate:
    given = [] if batches is None else batches_of(batches, None, LIMIT, seed)  # once, for both models
    with measuring(len(given) * sum(not isinstance(place, Energies) for place in places)):
        here, there = (
            place
            if isinstance(place, Energies)
            else update_energy(place, given, loss_fn, optimizer, seed=seed, units=units)
            for place in places
        )
    if not (here.aggregate(aggregate) > 0 and there.aggregate(aggregate) > 0):
        raise DepthlrError(
            "the step moves no unit before the head in one of the models: initialise them as depthlr does (init_)."
        )
    # rate'^2 S'(1) = rate^2 S(1).
    factor = (here.aggregate(aggregate) / there.aggregate(aggregate)) ** 0.5
    notes = group_notes([group_ratios(optimizer, place) for place in places if isinstance(place, nn.Module)])
    ends = len(here.units), len(there.units)
    return CarriedRate(rate * factor, "am-mup", *ends, factor, AM_MUP, tuple(notes), initialization=AS_IT_IS)
