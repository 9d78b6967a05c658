"""The models that a measurement builds: one initialization for each seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from depthlr import check
from depthlr.energy.batches import inputs_of
from depthlr.energy.given_optimizer import check_fits_any_model
from depthlr.errors import DepthlrError, kind_and_message
from depthlr.random_states import preserve_random_states
from depthlr.trace.depth import Depth, Units, effective_depth

Build = Callable[[], nn.Module]
SAME_WEIGHTS_NOTE = (
    "a builder gives the same model every time, so nothing is known of its scatter: let it draw its weights anew."
)
EVAL_MODE_NOTE = "in eval mode dropout and BatchNorm were measured as in evaluation: call train() first."


def depth_on(model: nn.Module, batch: Any, units: Units = None) -> Depth:
    """The effective depth of a model on the inputs of a batch.

    Args:
        model: The model.
        batch: One batch.
        units: As in `effective_depth`.
    """
    return effective_depth(model, inputs_of(model, batch), units=units)


def check_draws(seeds: Sequence[int], optimizer: Any) -> None:
    """Raise unless several new models can be measured.

    Args:
        seeds: One model is built for each.
        optimizer: A factory or a name, since every model is new.
    """
    if not isinstance(seeds, Sequence):
        raise DepthlrError(f"seeds is {seeds!r}: name them, such as range(3).")
    if not seeds:
        raise DepthlrError("seeds is empty: name at least one.")
    for seed in seeds:
        check.seed("A seed", seed)
    check_fits_any_model(optimizer)


def draws_new_weights(build: Build) -> bool:
    """Does `build()` return different weights for different seeds?"""
    first, second = (list(model.parameters()) for model in draw_models(build, (0, 1)))
    return len(first) != len(second) or not all(map(torch.equal, first, second))  # equal tensors have equal shapes


def draw_models(build: Build, seeds: Sequence[int]) -> Iterator[nn.Module]:
    """Yield `build()` under each seed. Random states are restored.

    Args:
        build: Returns a new model.
        seeds: One model is built for each.
    """
    for seed in seeds:
        yield build_model(build, int(seed))  # a variable would keep it in memory while the next is built


def build_model(build: Build, seed: int | None = None) -> nn.Module:
    """Call `build()` under a seed. Random states are restored.

    Args:
        build: Returns a model.
        seed: Seeds all random generators, if given.

    Raises:
        DepthlrError: `build` fails or returns no model.
    """
    if isinstance(build, nn.Module) or not callable(build):
        raise DepthlrError(
            f"a function that builds the model is wanted, not a {type(build).__name__}: write lambda: ...."
        )
    try:
        with preserve_random_states(seed):  # the caller draws from its own states
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
