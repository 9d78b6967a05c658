"""The sizes of a study: the task of each, which is its model with data, initialization and length, and its depth."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import cast

import torch
from torch import Tensor, nn

from depthlr.data.examples import Examples
from depthlr.init.plan import BranchScale, ParameterInit, Variance, apply_plan, init_plan
from depthlr.models.build import build
from depthlr.models.inputs import Example
from depthlr.python_name import python_callable
from depthlr.random_states import preserve_random_states
from depthlr.study.data import epoch_steps
from depthlr.study.description import Study
from depthlr.trace.depth import effective_depth
from depthlr.training.task import Task, mean_cross_entropy
from depthlr.training.training import LOSS, Training


def task_at(study: Study, size: int, examples: Examples, held_out: Examples | None = None) -> Task:
    """The task of one size of a study. A seed's initialization is the same on every device.

    Args:
        study: What is trained, and how.
        size: The value of the argument that the study varies.
        examples: The training data.
        held_out: What to evaluate on, if anything.
    """
    spec = study.model.spec_at(size)
    template, example = build(spec, input=examples.input)
    plan = _plan(study, template, example)
    drawn = bool(plan) and all(step.become != "kept" for step in plan)
    whole = drawn and not any(True for _ in template.buffers())

    def built(seed: int = 0) -> nn.Module:
        """The model as its builder draws it. It is seeded, so that every process builds the same model."""
        with preserve_random_states(seed, devices=[]):
            return build(spec, input=examples.input)[0]

    def initialize(model: nn.Module, seed: int) -> None:
        # The plan leaves some tensors as the builder draws them. These must come from the seed too.
        source = template if whole else built(seed)
        apply_plan(source, plan, torch.Generator().manual_seed(seed))
        with torch.no_grad():
            for mine, theirs in zip(_tensors(model), _tensors(source), strict=True):
                mine.copy_(theirs)

    loss_fn = mean_cross_entropy if study.training.loss == LOSS else python_callable(study.training.loss)
    training = training_in_steps(study, examples)
    data = study.data
    return Task(
        built,
        initialize,
        examples,
        training,
        loss_fn,
        limit=data.limit,
        held_out=held_out,
        loaders=data.loaders or 0,
    )


def training_in_steps(study: Study, examples: Examples) -> Training:
    """The training of a study, with its length in steps.

    Args:
        study: The study.
        examples: What it trains on.
    """
    given = study.training
    if given.epochs is None:
        return given
    return given.for_steps(given.epochs * epoch_steps(study, examples))


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    return chain(model.parameters(), model.buffers())


def _plan(study: Study, model: nn.Module, example: Example) -> tuple[ParameterInit, ...]:
    """The planned initialization; nothing if the model keeps its builder's."""
    if study.training.variance == "own":
        return ()
    variance, scale = cast(Variance, study.training.variance), cast(BranchScale, study.training.branch_scale)
    return init_plan(model, example, variance=variance, branch_scale=scale)


def depths_of(study: Study, input: str | None = None) -> dict[int, int]:
    """The total depth of each size: how many units it has.

    Args:
        study: The study.
        input: The shape of one example, as a data set names it.
    """
    return {
        size: len(effective_depth(*build(study.model.spec_at(size), input=input, meta=True)).units)
        for size in study.model.sizes
    }
