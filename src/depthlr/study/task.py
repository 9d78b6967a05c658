"""From a study to what a runner trains: the model of one size, its initialisation, the data and the budget."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import torch
from torch import Tensor, nn

from depthlr.data.examples import Examples
from depthlr.data.order import steps_per_epoch
from depthlr.errors import DepthlrError
from depthlr.init.plan import BranchScale, ParameterInit, Variance, apply_plan, init_plan
from depthlr.models.build import build
from depthlr.models.example import Example
from depthlr.python_name import python_callable
from depthlr.study.description import LOSS, Study
from depthlr.trace.random_states import random_states_kept
from depthlr.training.task import Task, mean_cross_entropy
from depthlr.training.task import Training as Budget


def task_at(study: Study, size: int, examples: Examples) -> Task:
    """The study's models of one size on these examples, with a seed's initialisation alike on every device."""
    spec = study.model.at(size)
    template, example = build(spec, input=examples.input)
    plan = _plan(study, template, example)
    drawn = bool(plan) and all(step.become != "kept" for step in plan)
    whole = drawn and not any(True for _ in template.buffers())

    def built(seed: int = 0) -> nn.Module:
        """Drawn from a seed always: what is neither weight nor buffer must be alike in every process too."""
        with random_states_kept(seed, devices=[]):
            return build(spec, input=examples.input)[0]

    def initialise(model: nn.Module, seed: int) -> None:
        # What the plan does not write has its builder's value, so the builder must draw it from the seed.
        source = template if whole else built(seed)
        apply_plan(source, plan, torch.Generator().manual_seed(seed))
        with torch.no_grad():
            for mine, theirs in zip(_tensors(model), _tensors(source), strict=True):
                mine.copy_(theirs)

    loss_fn = mean_cross_entropy if study.training.loss == LOSS else python_callable(study.training.loss)
    return Task(built, initialise, examples, budget(study, examples), loss_fn, limit=study.data.limit)


def budget(study: Study, examples: Examples) -> Budget:
    """How a cell is trained, in steps."""
    given = study.training
    steps = given.steps
    if steps is None:
        steps = (given.epochs or 0) * epoch_steps(study, examples)
    return Budget(
        steps=steps,
        batch=given.batch,
        optimizer=given.optimizer,
        momentum=given.momentum or 0.0,
        weight_decay=given.weight_decay,
        schedule=given.schedule,
        warmup=given.warmup or 0.0,
        precision=given.precision,
    )


def epoch_steps(study: Study, examples: Examples) -> int:
    """Steps in one pass over the examples that the study takes."""
    count = len(examples) if study.data.limit is None else min(len(examples), study.data.limit)
    return steps_per_epoch(count, study.training.batch)


def judged_steps(study: Study, examples: Examples | None) -> int | None:
    """How many of a cell's last steps it is judged by; None for all of them."""
    if study.training.metric == "budget":
        return None
    if examples is None:
        raise DepthlrError("The metric last_epoch needs to know how long an epoch is: pass the examples.")
    return epoch_steps(study, examples)


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    return chain(model.parameters(), model.buffers())


def _plan(study: Study, model: nn.Module, example: Example) -> tuple[ParameterInit, ...]:
    """What is drawn anew: nothing where the model is to start as its builder leaves it."""
    if study.training.variance == "own":
        return ()
    variance: Variance = "he" if study.training.variance == "he" else "gating"
    return init_plan(model, example, variance=variance, branch_scale=_branch_scale(study))


def _branch_scale(study: Study) -> BranchScale:
    scales: dict[str, BranchScale] = {"auto": "auto", "last": "last", "each": "each", "none": "none"}
    return scales[study.training.branch_scale]
