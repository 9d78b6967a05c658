"""What a study trains: its data, the task and the depth of each size, and the executor of its cells."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import cast

import torch
from torch import Tensor, nn

from depthlr.data.batches import steps_per_epoch
from depthlr.data.examples import Examples, split
from depthlr.data.sources import load, load_parts, parse_name
from depthlr.errors import DepthlrError
from depthlr.init.plan import BranchScale, ParameterInit, Variance, apply_plan, init_plan
from depthlr.models.build import build
from depthlr.models.inputs import Example
from depthlr.python_name import is_python_name, python_callable
from depthlr.random_states import preserve_random_states
from depthlr.study.description import NOTHING_TO_TRAIN, Study
from depthlr.trace.depth import effective_depth
from depthlr.training.command import KEY, Commands
from depthlr.training.executor import Executor, Limits
from depthlr.training.local import open_executor
from depthlr.training.serial import try_step
from depthlr.training.task import MakeTask, Task, mean_cross_entropy
from depthlr.training.training import LOSS, Training


def load_data(study: Study) -> tuple[Examples, Examples | None]:
    """The examples that a study trains on, and those that it is evaluated on, if any.

    Args:
        study: The study.
    """
    data, held_out = study.data, study.data.validation
    if held_out is None:
        return load(data.name, data.folder), None
    if isinstance(held_out, str) and is_python_name(parse_name(held_out)[0]):
        return load(data.name, data.folder), load(held_out, data.folder)
    if isinstance(held_out, str):
        return load_parts(data.name, held_out, data.folder)
    return split(load(data.name, data.folder), held_out)


def data_digest(examples: Examples | None, held_out: Examples | None = None) -> str | None:
    """What a study's file remembers of its data: the digest of the examples, or of both parts.

    Args:
        examples: The training data. None if another program has them.
        held_out: What cells are evaluated on, if anything.
    """
    if examples is None or held_out is None:
        return None if examples is None else examples.digest
    return hashlib.sha256(f"{examples.digest} {held_out.digest}".encode()).hexdigest()


def epoch_steps(study: Study, examples: Examples) -> int:
    """Steps in one pass over the examples that the study takes.

    Args:
        study: The study.
        examples: What it trains on.
    """
    count = len(examples) if study.data.limit is None else min(len(examples), study.data.limit)
    return steps_per_epoch(count, study.training.batch)


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
    plan = _plan(study.training, template, example)
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
    training, limit, loaders = training_in_steps(study, examples), study.data.limit, study.data.loaders or 0
    return Task(built, initialize, examples, training, loss_fn, limit=limit, held_out=held_out, loaders=loaders)


def training_in_steps(study: Study, examples: Examples) -> Training:
    """The training of a study, with its length in steps.

    Args:
        study: The study.
        examples: What it trains on.
    """
    given = study.training
    if given.epochs is None:
        return given
    return replace(given, steps=given.epochs * epoch_steps(study, examples), epochs=None)


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    return chain(model.parameters(), model.buffers())


def _plan(training: Training, model: nn.Module, example: Example) -> tuple[ParameterInit, ...]:
    """The planned initialization; nothing if the model keeps its builder's."""
    if training.variance == "own":
        return ()
    variance, scale = cast(Variance, training.variance), cast(BranchScale, training.branch_scale)
    return init_plan(model, example, variance=variance, branch_scale=scale)


def depths_of(study: Study, input: str | None = None) -> dict[int, int]:
    """The total depth of each size: how many units it has.

    Args:
        study: The study.
        input: The shape of one example, as a data set names it.
    """
    depths = {}
    for size in study.model.sizes:
        spec = study.model.spec_at(size)
        model, example = build(spec, input=input, meta=True)
        try:
            depths[size] = len(effective_depth(model, example).units)
        except DepthlrError as error:
            raise DepthlrError(f"{spec}: {error}") from error
    return depths


OpenCluster = Callable[[MakeTask, Limits | None, int | None], Executor]
"""Opens the executor of a cluster from the tasks, the limits of a cell, and how many cells train at a time."""


def executor_for(
    study: Study,
    examples: Examples | None,
    held_out: Examples | None = None,
    *,
    workers: int | None = None,
    limits: Limits | None = None,
    open_cluster: OpenCluster | None = None,
) -> AbstractContextManager[Executor]:
    """The executor of a study: its command, a cluster, its models on a GPU, or `workers` processes.

    Args:
        study: The study.
        examples: What is trained on; None for a command.
        held_out: What is evaluated on, if anything.
        workers: Processes, commands or cells at a time.
        limits: Of each cell.
        open_cluster: Opens the executor of a cluster. None trains on this machine.
    """
    training = study.training
    if open_cluster is not None and training.command is not None:
        raise DepthlrError("--on trains cells that depthlr builds: for a command, use depthlr ask and tell.")
    if training.command is not None:
        key, shell = training.key or KEY, bool(training.shell)
        return closing(Commands(training.command, workers, limits, result=training.result, key=key, shell=shell))
    if examples is None:
        raise DepthlrError(NOTHING_TO_TRAIN)
    # Picklable, so that worker processes can call it.
    make_task = partial(task_at, study, examples=examples, held_out=held_out)
    if open_cluster is not None:  # nothing is tried here first: a login node may lack the GPU
        return closing(open_cluster(make_task, limits, workers))
    try_step(make_task(study.model.sizes[0]))
    return open_executor(make_task, workers=workers, limits=limits)
