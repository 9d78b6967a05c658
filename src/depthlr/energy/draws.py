"""Several initialisations of one model, an instance for each seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from depthlr.energy.step import OWN_FACTORY, is_factory
from depthlr.errors import DepthlrError, kind_and_message
from depthlr.law.domain import MOST_SEED, whole
from depthlr.trace.run import random_states_kept

Build = Callable[[], nn.Module]
ALIKE = "a builder gives the same model every time, so nothing is known of its scatter: let it draw its weights anew."
EVALUATED = "in eval mode dropout and BatchNorm were measured as in evaluation: call train() first."


def check_draws(seeds: Sequence[int], optimizer: Any) -> None:
    """Every model is new, so the optimizer must be a factory or a name."""
    if not isinstance(seeds, Sequence):
        raise DepthlrError(f"seeds is {seeds!r}: name them, such as range(3).")
    if not seeds:
        raise DepthlrError("seeds is empty: name at least one.")
    for seed in seeds:
        whole(seed, "A seed", most=MOST_SEED)
    if not is_factory(optimizer):
        raise DepthlrError(f"the optimizer is bound to one model: pass a factory such as {OWN_FACTORY}.")


def draws_anew(build: Build) -> bool:
    """Does `build()` give other weights under another seed?"""
    first, second = (list(model.parameters()) for model in draws(build, (0, 1)))
    return len(first) != len(second) or any(
        a.shape != b.shape or not torch.equal(a, b) for a, b in zip(first, second, strict=True)
    )


def draws(build: Build, seeds: Sequence[int]) -> Iterator[nn.Module]:
    """`build()` under each seed; random states are left as they were."""
    for seed in seeds:
        yield _drawn(build, int(seed))  # without a name, which would keep a model while the next one is built


def _drawn(build: Build, seed: int) -> nn.Module:
    with random_states_kept(seed):  # no longer: what is done with it draws from the caller's own states
        return built(build)


def built(build: Build) -> nn.Module:
    """`build()`, if it is a model."""
    if isinstance(build, nn.Module) or not callable(build):
        raise DepthlrError(
            f"a function that builds the model is wanted, not a {type(build).__name__}: write lambda: ...."
        )
    try:
        model = build()
    except DepthlrError:
        raise
    except Exception as error:
        raise DepthlrError(f"the function that builds the model failed ({kind_and_message(error)}).") from error
    if not isinstance(model, nn.Module):
        raise DepthlrError(
            f"the function that builds the model gave a {type(model).__name__}: let it return the model."
        )
    return model
