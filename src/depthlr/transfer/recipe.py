"""A recipe, and what can be seen of its model in one run: depth and initialization."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from numbers import Real
from typing import Any

from torch import nn

from depthlr import check
from depthlr.energy.batches import inputs_of, read_batches
from depthlr.energy.energy import Energy, EnergyOverSeeds
from depthlr.energy.initializations import Build, model_of
from depthlr.energy.persistent import DrawnRate
from depthlr.energy.step import OwnRates
from depthlr.errors import DepthlrError
from depthlr.init.plan import follows_plan, plan_of
from depthlr.law.carried_rate import AS_INIT, OTHER_INIT, UNSEEN
from depthlr.law.rules import OPTIMIZER_FAMILIES
from depthlr.trace.depth import Depth, Units, depth_and_graph
from depthlr.trace.graph import Graph
from depthlr.trace.interface import LossFn, is_sharded
from depthlr.trace.tracing import trace

Energies = Energy | EnergyOverSeeds


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
