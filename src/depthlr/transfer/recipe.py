"""A recipe, and what can be seen of it without training: depth, initialization, optimizer family, parameter groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Real
from typing import Any, NamedTuple

from torch import nn
from torch.optim import SGD

from depthlr import check
from depthlr.energy.batches import inputs_of, read_batches
from depthlr.energy.energy import Energy, EnergyOverSeeds
from depthlr.energy.given_optimizer import LARGEST_GROUP, largest_rate, optimizers_of, rate_ratios
from depthlr.energy.initializations import Build, build_model
from depthlr.energy.persistent import DrawnRate
from depthlr.errors import DepthlrError
from depthlr.init.plan import follows_plan, plan_of
from depthlr.law.carried_rate import AS_INIT, OTHER_INIT, UNSEEN
from depthlr.law.rules import OPTIMIZER_FAMILIES, Family
from depthlr.trace.depth import Depth, Units, check_units, depth_of
from depthlr.trace.graph import Graph
from depthlr.trace.run import LossFn, is_sharded
from depthlr.trace.tracing import trace

UNEQUAL_GROUPS = (
    "the groups' rates, relative to the largest, are not the same in every model (down to {:.3g} and {:.3g}), as with "
    "layer-wise decay over other numbers of layers: carried rates were not compared with tuned ones there."
)
TWO_RATES = (
    "{} step together: their rates change by one factor, so their ratio is kept; how the best ratio changes with depth "
    "was not tested. Carried rates: {}."
)
Energies = Energy | EnergyOverSeeds


@dataclass(frozen=True)
class MeasuredModel:
    """The result of measuring a model for the rule `Measured`. A recipe may hold it in place of the model.

    Args:
        depth: The model's effective depth.
        rate: The rate at which its persistent energy is 1, over initializations.
        notes: What a user should know about the measurement.
        group_ratios: The rates of its parameter groups over the largest.
        in_scope: False if a note says that such measurements were not compared with tuned rates.
    """

    depth: Depth
    rate: DrawnRate
    notes: tuple[str, ...] = ()
    group_ratios: tuple[float, ...] = (1.0,)
    in_scope: bool = True


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
        schedule: How the rate changes during the run: "constant", or any other name, such as "warmup-cosine".
        steps: How many steps the run has.
        example: An input on which depth is counted. None takes the first of `batches`.
        units: Modules that count as one unit each, as in `effective_depth`.
    """

    build: ModelLike
    batches: Any = None
    loss_fn: LossFn | None = None
    optimizer: Any = "sgd"
    schedule: str = "constant"
    steps: int | None = None
    example: Any = None
    units: Units = None

    def __post_init__(self) -> None:
        if isinstance(self.optimizer, str):
            check.one_of("the optimizer", self.optimizer, OPTIMIZER_FAMILIES)

    def replace(self, **changes: Any) -> Recipe:
        """A copy of this recipe with some entries changed."""
        return replace(self, **changes)

    def depth(self) -> Depth:
        """The effective depth of the recipe's model, counted on `example` or on the first of `batches`."""
        (depth,) = count_depths(self)
        return depth

    @staticmethod
    def from_trainer(trainer: Any) -> Recipe:
        """The recipe of a Hugging Face Trainer, as `depthlr.integrations.hf.recipe_from_trainer` reads it.

        Args:
            trainer: A `transformers.Trainer`, or a subclass.
        """
        # By name: integrations lie above this layer, and transformers is needed by this call alone.
        recipe: Recipe = import_module("depthlr.integrations.hf").recipe_from_trainer(trainer)
        return recipe


def count_depths(*recipes: Recipe, seed: int = 0) -> list[Depth]:
    """The depth of each recipe's model.

    Args:
        recipes: Those without an example are counted on one batch: the first of the first recipe that has batches.
        seed: Seeds what a loader draws.
    """
    batch = _batch_to_count_on(recipes, seed)
    return [_count(recipe, batch).depth for recipe in recipes]


def depths_and_initializations(*recipes: Recipe, seed: int = 0) -> list[tuple[Depth, str]]:
    """The depth of each recipe's model, and how it is initialized. Both are seen in one run of the model.

    Args:
        recipes: As in `count_depths`.
        seed: Seeds what a loader draws.
    """
    batch = _batch_to_count_on(recipes, seed)
    return [_depth_and_initialization(recipe, batch) for recipe in recipes]


def _batch_to_count_on(recipes: Sequence[Recipe], seed: int) -> Any:
    batches = next((recipe.batches for recipe in recipes if recipe.batches is not None), None)
    if batches is None or all(recipe.example is not None for recipe in recipes):
        return None
    return read_batches(batches, 1, 1, seed)[0]


def _depth_and_initialization(recipe: Recipe, batch: Any) -> tuple[Depth, str]:
    counted = _count(recipe, batch)
    return counted.depth, _initialization(counted)


class _Counted(NamedTuple):
    depth: Depth
    model: nn.Module | None = None
    example: Any = None
    graph: Graph | None = None  # None if the number of units is given


def _count(recipe: Recipe, batch: Any) -> _Counted:
    build = recipe.build
    if isinstance(build, Depth):
        return _Counted(build)
    if isinstance(build, MeasuredModel):
        return _Counted(build.depth)
    if isinstance(build, Energies):
        return _Counted(Depth(len(build.units), len(build.units)))
    if callable(build):  # as models are, too
        return _count_model(build if isinstance(build, nn.Module) else build_model(build), recipe, batch)
    if isinstance(build, bool) or not isinstance(build, Real) or not float(build) > 0:
        raise DepthlrError(f"a source or target is a model or a depth above 0, not {build!r}.")
    return _Counted(Depth(float(build), float(build)))


def _count_model(model: nn.Module, recipe: Recipe, batch: Any) -> _Counted:
    example, units = recipe.example, recipe.units
    if example is None:
        if batch is None:
            raise DepthlrError("counting a model's depth needs an example input: pass example= or batches=.")
        example = inputs_of(model, batch)
    check_units(units)
    if isinstance(units, int):
        return _Counted(Depth(units, units), model, example)
    graph = trace(model, example, allow_recurrence=units is not None)
    return _Counted(depth_of(graph, units), model, example, graph)


def _initialization(counted: _Counted) -> str:
    model, graph = counted.model, counted.graph
    if model is None or is_sharded(model) or any(parameter.is_meta for parameter in model.parameters()):
        return UNSEEN
    try:
        graph = trace(model, counted.example) if graph is None else graph
        plan = plan_of(model, graph)
    except DepthlrError:  # a recurrent model, whose depth the user gives by units=
        return UNSEEN
    return AS_INIT if follows_plan(model, plan) else OTHER_INIT


def family_of(optimizer: Any, *models: Any) -> Family:
    """The family of an optimizer: "sgd" if its step is proportional to the gradient, else "adam".

    Args:
        optimizer: What `optimizers_of` takes.
        models: A factory is called with the first model among these, or with what the first function returns.

    Raises:
        DepthlrError: The optimizer is another library's, whose family is not known.
    """
    if isinstance(optimizer, str) and optimizer in OPTIMIZER_FAMILIES:
        return OPTIMIZER_FAMILIES[optimizer]
    optimizers = optimizers_of(optimizer, _first_model(models))
    if all(isinstance(one, SGD) for one in optimizers):
        return "sgd"
    if all(type(one).__module__.startswith("torch.optim") for one in optimizers):
        return "adam"
    names = ", ".join(type(one).__name__ for one in optimizers)
    raise DepthlrError(f"this rule depends on the optimizer, and {names} is not torch's: pass family='sgd' or 'adam'.")


def _first_model(models: Sequence[Any]) -> nn.Module:
    for model in models:
        if isinstance(model, nn.Module):
            return model
        if callable(model):
            return build_model(model)
    return nn.Linear(2, 2)  # there is no model, only depths, and most factories take any model


def group_ratios(optimizer: Any, model: nn.Module) -> tuple[float, ...]:
    """The rates of a model's parameter groups, relative to the largest.

    Args:
        optimizer: A name, or a factory that takes the model.
        model: The model.
    """
    return rate_ratios(optimizers_of(optimizer, model))


def group_notes(ratios: Sequence[tuple[float, ...]]) -> list[str]:
    """Say to which group a carried rate belongs, and whether the groups differ between models.

    Args:
        ratios: The `group_ratios` of each model.
    """
    notes = [] if set(ratios) <= {(1.0,)} else [LARGEST_GROUP]
    if len(set(ratios)) > 1:
        notes.append(UNEQUAL_GROUPS.format(ratios[0][-1], ratios[-1][-1]))
    return notes


def optimizer_notes(rate: float, optimizer: Any, *models: Any) -> list[str]:
    """How the rates of several optimizers change, such as Muon for matrices and AdamW for the rest.

    Args:
        rate: The carried rate, which is that of the group with the largest rate.
        optimizer: What `optimizers_of` takes.
        models: As in `family_of`. If none of them is a model or a function, there is no note.
    """
    if not any(map(callable, models)):  # depths alone
        return []
    try:
        made = optimizers_of(optimizer, _first_model(models))
    except DepthlrError:  # a factory that cannot make one for this model: the rule does not need it
        return []
    if len(made) < 2:
        return []
    names = [type(one).__name__ for one in made]
    given = [largest_rate([one]) for one in made]
    rates = [f"{name} {rate * one / max(given):.3g}" for name, one in zip(names, given, strict=True)]
    return [TWO_RATES.format(" and ".join(names), ", ".join(rates))]
