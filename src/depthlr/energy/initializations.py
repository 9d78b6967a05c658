"""The models that a measurement builds: one initialization for each seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

from depthlr.energy.batches import inputs_of
from depthlr.energy.gradient import unwrap_measurable
from depthlr.energy.tensors import as_real
from depthlr.errors import DepthlrError, one_sentence_errors
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


class Draws:
    """The initializations of a model, one after the other. It also sees whether they have the same weights.

    Args:
        build: Returns a new model under each seed. A model that is given in its place is one initialization.
        seeds: One model is built for each.
    """

    def __init__(self, build: nn.Module | Build, seeds: Sequence[int]) -> None:
        if isinstance(build, nn.Module):
            self._models, self._length = iter([build]), 1
        else:
            self._models, self._length = draw_models(build, seeds), len(seeds)
        self._checksums: list[list[float]] = []

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Draws:
        return self

    def __next__(self) -> nn.Module:
        return self._seen(next(self._models))  # a variable would keep the model in memory, as in `draw_models`

    def _seen(self, model: nn.Module) -> nn.Module:
        _, parameters = unwrap_measurable(model)
        self._checksums.append([float(as_real(p.detach()).float().sum()) for p in parameters.values()])
        return model

    @property
    def same_weights(self) -> bool:
        """Did all of several initializations have the same weights?"""
        return len(self._checksums) > 1 and all(one == self._checksums[0] for one in self._checksums)


def draw_models(build: Build, seeds: Sequence[int]) -> Iterator[nn.Module]:
    """Yield `build()` under each seed. Random states are restored.

    Args:
        build: Returns a new model.
        seeds: One model is built for each.
    """
    for seed in seeds:
        yield build_model(build, int(seed))  # a variable would keep it in memory while the next is built


def model_of(build: nn.Module | Build) -> nn.Module:
    """A model as it is, or what the function builds."""
    return build if isinstance(build, nn.Module) else build_model(build)


def build_model(build: Build, seed: int | None = None) -> nn.Module:
    """Call `build()` under a seed. Random states are restored.

    Args:
        build: Returns a model.
        seed: Seeds all random generators, if given.

    Raises:
        DepthlrError: `build` fails or returns no model.
    """
    if isinstance(build, nn.Module) or not callable(build):
        raise DepthlrError(f"a function that builds the model is wanted, not a {type(build).__name__}.")
    with one_sentence_errors("the function that builds the model failed"), preserve_random_states(seed):
        model = build()  # the caller draws from its own states
    if not isinstance(model, nn.Module):
        raise DepthlrError(f"the function that builds the model gave a {type(model).__name__}, not a model.")
    return model
