"""Tiny tasks that train in milliseconds, at module level so that worker processes can build them."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr.data import load_digits
from depthlr.data.sets import DataSet
from depthlr.init import apply_plan, init_plan
from depthlr.models.build import build
from depthlr.training import Task, Training


def initialize(model: nn.Module, seed: int, spec: str) -> None:
    """Drawn on the CPU, so that a seed's weights are alike on every device."""
    source = build(spec, input="1x8x8")[0]
    apply_plan(source, init_plan(source, torch.zeros(2, 1, 8, 8)), torch.Generator().manual_seed(seed))
    model.load_state_dict(source.state_dict())


def tiny_task(size: int, pattern: str = "resnet?width=4&blocks={}", **training) -> Task:
    spec = pattern.format(size)
    return Task(
        build=lambda: build(spec, input="1x8x8")[0],
        initialize=partial(initialize, spec=spec),
        examples=load_digits(),
        training=Training(**{"steps": 12, "batch": 16, **training}),
    )


def unreduced(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, reduction="none")


def unreduced_task(size: int) -> Task:
    return replace(tiny_task(size), loss_fn=unreduced)


def never(output: Tensor, target: Tensor) -> Tensor:
    threading.Event().wait()
    return output


def endless_task(size: int) -> Task:
    return replace(tiny_task(size), loss_fn=never)


def held_task(examples: DataSet, size: int) -> Task:
    """With examples that the caller holds, as a sweep has them."""
    return replace(tiny_task(size), examples=examples)


def printing_task(size: int) -> Task:
    print("from Python", flush=True)
    os.write(1, b"from C")  # past Python's own buffers
    return tiny_task(size)


# -- tasks of which one seed fails -----------------------------------------------------------------------------------


class Failing(nn.Module):
    """A model that fails in its first forward pass in the cell whose seed is 1."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 10)
        self.how = how

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.linear.bias.detach()[0] == 1:  # as `initialize_marked` marks seed 1
            FAILURES[self.how]()
        return self.linear(x.flatten(1))


def raises() -> None:
    raise ValueError("no luck")


def exits() -> None:
    raise SystemExit(3)


def hangs() -> None:
    threading.Event().wait()


def crashes() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_killed_once() -> None:
    """The first time alone, as a file says from process to process."""
    if not os.path.exists(os.environ["DIED"]):
        open(os.environ["DIED"], "w").close()
        is_killed()


def runs_out_of_memory() -> None:
    raise MemoryError


FAILURES = {
    "raises": raises,
    "exits": exits,
    "hangs": hangs,
    "segmentation fault": crashes,
    "killed": is_killed,
    "killed once": is_killed_once,
    "memory": runs_out_of_memory,
}


class HangingTask:
    """Makes tasks, but hangs where the environment says: as a process loads it, or builds the model."""

    def __setstate__(self, state: object) -> None:
        if os.environ.get("HANGS") == "load":
            hangs()

    def __getstate__(self) -> dict[str, bool]:
        return {"state": True}  # or nothing would be set

    def __call__(self, size: int) -> Task:
        if os.environ.get("HANGS") == "build":
            hangs()
        return tiny_task(size)


def initialize_marked(model: nn.Module, seed: int) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.linear.bias[0] = float(seed == 1)


def failing_task(size: int, how: str) -> Task:
    return Task(
        build=partial(Failing, how),
        initialize=initialize_marked,
        examples=load_digits(),
        training=Training(steps=4, batch=16),
    )
