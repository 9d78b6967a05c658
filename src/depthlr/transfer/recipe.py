"""A recipe, what one run of its model shows (depth and initialization), and what its optimizers say of a rule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from numbers import Real
from typing import Any

from torch import Tensor, nn
from torch.optim import SGD

from depthlr import check
from depthlr.energy.batches import inputs_of, read_batches
from depthlr.energy.energy import Energy, EnergyOverSeeds
from depthlr.energy.initializations import Build, model_of
from depthlr.energy.persistent import DrawnRate
from depthlr.energy.step import LARGEST_GROUP, OWN_FACTORY, OwnRates, optimizers_of, own_rates
from depthlr.errors import DepthlrError
from depthlr.init.plan import follows_plan, plan_of
from depthlr.law.carried_rate import AS_INIT, OTHER_INIT, UNSEEN, CarriedRate
from depthlr.law.rules import OPTIMIZER_FAMILIES, Family
from depthlr.trace.depth import Depth, Units, depth_and_graph
from depthlr.trace.graph import Graph
from depthlr.trace.interface import LossFn, is_sharded
from depthlr.trace.tracing import trace

Energies = Energy | EnergyOverSeeds
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
OTHER_MODEL = f"the optimizer steps another model's parameters: pass a factory, such as {OWN_FACTORY}."
SAME_STEPS = 1.5  # numbers of steps that differ by less count as equal


@dataclass(frozen=True)
class MeasuredModel:
    """The result of measuring a model for the rule `Measured`. A recipe may hold it in place of the model.

    Args:
        depth: The model's effective depth.
        rate: The rate at which its persistent energy is 1, over initializations.
        notes: What a user should know about the measurement.
        in_scope: False if a note says that such measurements were not compared with tuned rates.
        own_rates: Those of the recipe's optimizers, if they are known.
    """

    depth: Depth
    rate: DrawnRate
    notes: tuple[str, ...] = ()
    in_scope: bool = True
    own_rates: OwnRates | None = None


ModelLike = int | float | Depth | nn.Module | Build | Energies | MeasuredModel


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run, except the learning rate.

    Args:
        build: A function that returns the model, initialized as it will be trained. A model, a depth, energies or a
            `MeasuredModel` may stand in its place.
        batches: The batches, each of which one optimizer step sees, as `update_energy` takes them.
        loss_fn: Takes output and target. None takes the model's own loss.
        optimizer: A name, or a factory that takes the model.
        schedule: How the rate changes during the run: "constant" if it does not, else any other name, such as
            "warmup-cosine". None if that is not known.
        steps: How many steps the run has. None if that is not known.
        example: An input on which depth is counted. None takes the first of `batches`.
        units: Modules that count as one unit each, as in `effective_depth`.
    """

    build: ModelLike
    batches: Any = None
    loss_fn: LossFn | None = None
    optimizer: Any = "sgd"
    schedule: str | None = None
    steps: int | None = None
    example: Any = None
    units: Units = None

    def __post_init__(self) -> None:
        if isinstance(self.optimizer, str):
            check.one_of("the optimizer", self.optimizer, OPTIMIZER_FAMILIES)
        if self.steps is not None:
            check.count("steps", self.steps)
        if self.schedule is not None:
            check.text("schedule", self.schedule)

    def replace(self, **changes: Any) -> Recipe:
        """A copy of this recipe with some entries changed."""
        return replace(self, **changes)

    def depth(self) -> Depth:
        """The effective depth of the recipe's model, counted on `example` or on the first of `batches`."""
        (counted,) = count_depths(self)
        return counted.depth

    @staticmethod
    def from_trainer(trainer: Any) -> Recipe:
        """The recipe of a Hugging Face Trainer, as `depthlr.integrations.hf.recipe_from_trainer` reads it.

        Args:
            trainer: A `transformers.Trainer`, or a subclass.
        """
        # By name: integrations lie above this layer, and transformers is needed by this call alone.
        recipe: Recipe = import_module("depthlr.integrations.hf").recipe_from_trainer(trainer)
        return recipe


@dataclass(frozen=True)
class Counted:
    """The depth of a recipe's model, and the run in which it was counted.

    Args:
        depth: The effective depth.
        model: The model. None if the recipe gives a depth in its place.
        example: The example on which it ran.
        graph: The run. None if the number of units is given.
    """

    depth: Depth
    model: nn.Module | None = None
    example: Any = None
    graph: Graph | None = None

    @cached_property
    def initialization(self) -> str:
        """How the model is initialized: `AS_INIT`, `OTHER_INIT` or `UNSEEN`."""
        model = self.model
        if model is None or is_sharded(model) or any(parameter.is_meta for parameter in model.parameters()):
            return UNSEEN
        try:
            plan = plan_of(model, self.graph or trace(model, self.example))
        except DepthlrError:  # a recurrent model, whose depth the user gives by units=
            return UNSEEN
        return AS_INIT if follows_plan(model, plan) else OTHER_INIT


def count_depths(*recipes: Recipe, seed: int = 0) -> list[Counted]:
    """The depth of each recipe's model, from one run of the model.

    Args:
        recipes: Those without an example are counted on one batch: the first of the first recipe that has batches.
        seed: Seeds what a loader draws.
    """
    batches = next((recipe.batches for recipe in recipes if recipe.batches is not None), None)
    batch = None
    if batches is not None and any(recipe.example is None for recipe in recipes):
        batch = read_batches(batches, 1, 1, seed)[0]
    return [_count(recipe, batch) for recipe in recipes]


def _count(recipe: Recipe, batch: Any) -> Counted:
    build = recipe.build
    if isinstance(build, Depth):
        return Counted(build)
    if isinstance(build, MeasuredModel):
        return Counted(build.depth)
    if isinstance(build, Energies):
        return Counted(Depth(len(build.units), len(build.units)))
    if callable(build):  # as models are, too
        model, example = model_of(build), recipe.example
        if example is None and batch is None:
            raise DepthlrError("a depth needs an example input: pass example= or batches=, or two recipes with one.")
        example = inputs_of(model, batch) if example is None else example
        depth, graph = depth_and_graph(model, example, recipe.units)
        return Counted(depth, model, example, graph)
    if isinstance(build, bool) or not isinstance(build, Real) or not float(build) > 0:
        hint = ": pass Recipe.from_trainer(trainer)" if hasattr(build, "get_train_dataloader") else ""
        raise DepthlrError(f"a source or target is a recipe, a model or a depth above 0, not {build!r}{hint}.")
    return Counted(Depth(float(build), float(build)))


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

    Raises:
        DepthlrError: The optimizer is an object that steps another model.
    """
    if model is None:
        return None
    made = optimizers_of(recipe.optimizer, model)
    own = {id(parameter) for parameter in model.parameters()}
    stepped = [parameter for one in made for group in one.param_groups for parameter in group["params"]]
    if stepped and not any(id(parameter) in own for parameter in stepped):
        raise DepthlrError(OTHER_MODEL)
    return own_rates(made)


def _differences(source: Recipe, target: Recipe, rates: Sequence[OwnRates]) -> list[str]:
    """One sentence for each entry of two runs that differs, where both are known."""
    optimizers: list[Any] = [source.optimizer, target.optimizer]
    if not all(isinstance(one, str) for one in optimizers):
        optimizers = [None, None]
        if len(rates) > 1:
            optimizers = [" and ".join(one.names) for one in rates]
    steps = source.steps, target.steps
    if None not in steps and max(steps) < SAME_STEPS * min(steps):  # type: ignore[type-var,operator]
        steps = None, None
    entries = {
        "steps": steps,
        "schedules": (source.schedule, target.schedule),
        "optimizers": tuple(optimizers),
        "batch sizes": (_batch_size(source.batches), _batch_size(target.batches)),
    }
    return [OTHER_RUN.format(name, *both) for name, both in entries.items() if None not in both and both[0] != both[1]]


def _batch_size(batches: Any) -> int | None:
    """How many examples a batch has; None if it cannot be told without reading one."""
    if isinstance(batches, list) and batches:
        first = batches[0]
        parts = list(first.values()) if isinstance(first, Mapping) else first
        inputs = parts[0] if isinstance(parts, list | tuple) and parts else None
        return len(inputs) if isinstance(inputs, Tensor) and inputs.dim() else None
    size = getattr(batches, "batch_size", None)
    return size if isinstance(size, int) else None


def _optimizer_notes(carried: CarriedRate, source: OwnRates, target: OwnRates) -> list[str]:
    """How the rates of groups, and of optimizers that step together, change."""
    has_groups, has_optimizers = len(target.ratios) > 1, len(target.names) > 1
    tuned, largest = carried.rate / carried.factor, carried.rate
    notes = []
    if has_groups and not math.isclose(tuned, source.largest, rel_tol=0.01):
        largest = source.largest * carried.factor
        notes.append(OTHER_RATE.format(source.largest, tuned, carried.factor))
    elif has_groups:
        notes.append(LARGEST_GROUP)
    if has_optimizers:
        notes.append(TOGETHER.format(" and ".join(target.names)))
    if has_groups or has_optimizers:
        listed: dict[str, list[str]] = {}
        for name, ratio in sorted(target.groups, key=lambda group: -group[1]):
            listed.setdefault(name, []).append(f"{largest * ratio:.3g}")
        rates = ", ".join(f"{name} {' and '.join(values)}" for name, values in listed.items())
        notes.append(CARRIED_RATES.format(rates))
    return notes
