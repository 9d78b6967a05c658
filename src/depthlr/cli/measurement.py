"""What `measure`, `suggest`, `check` and `transfer` measure: an initialized model with batches and a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from depthlr import check
from depthlr.cli.options import DEFAULT_LOSS, RANDOM, MeasurementOptions
from depthlr.cli.output import print_note
from depthlr.data.batches import batch_order, random_batches
from depthlr.data.examples import Examples
from depthlr.data.sources import load
from depthlr.energy.batches import GRADIENT_BATCHES
from depthlr.errors import DepthlrError, one_sentence_errors
from depthlr.init.plan import apply_plan, init_plan
from depthlr.models.build import build
from depthlr.models.spec import parse_spec
from depthlr.python_name import is_python_name, python_callable
from depthlr.trace.interface import LossFn, arguments_of, cannot_run, readout_of
from depthlr.training.task import mean_cross_entropy

MEMORY = 2**30  # bytes of batches; if more are needed, all initializations share one set of batches
Batches = list[tuple[Any, Tensor]]


@dataclass(frozen=True)
class MeasurementData:
    """The data and the loss on which models are measured."""

    options: MeasurementOptions
    examples: Examples | None  # None: random inputs of the shape that each model takes
    loss_fn: LossFn


def measurement_data(options: MeasurementOptions) -> MeasurementData:
    """Load the data and find the loss.

    Args:
        options: What the user wrote.

    Raises:
        DepthlrError: An option is out of range, or two contradict each other.
    """
    check.count("--seeds", options.seeds)
    check.count("--batch", options.batch)
    loss_fn = _find_loss(options.loss)
    if options.data == RANDOM:
        if options.folder is not None:
            raise DepthlrError("--folder is where a data set lies, and random inputs lie nowhere: name --data too.")
        return MeasurementData(options, None, loss_fn)
    examples = load(options.data, options.folder)
    if options.input is not None:
        raise DepthlrError(f"--input and --data contradict each other: the examples are {examples.input}.")
    if examples.classes == 0 and options.loss == DEFAULT_LOSS:
        raise DepthlrError(
            f"The targets of {options.data} are numbers to regress on, and cross-entropy takes classes: name your own "
            "loss, --loss package.module:function."
        )
    return MeasurementData(options, examples, loss_fn)


def _find_loss(name: str) -> LossFn:
    if name == DEFAULT_LOSS:
        return mean_cross_entropy
    if not is_python_name(name):
        raise DepthlrError(f"--loss {name}: write {DEFAULT_LOSS}, or your own as package.module:function.")
    found: LossFn = python_callable(name)
    return found


def prepare_measurement(
    spec: str, on: MeasurementData, *, draws: int | None = None, batches: Batches | None = None
) -> tuple[Callable[[], nn.Module], Batches]:
    """A function that builds a model under the current seed, and batches to measure it on.

    Args:
        spec: The model.
        on: The data, the size of a batch, and the loss.
        draws: How many initializations have batches of their own; by default all that are measured.
        batches: Those of another model, to share.
    """
    input = on.options.input if on.examples is None else on.examples.input
    model, example = build(spec, input=input)
    if batches is None:
        size, sets = on.options.batch, draws or on.options.seeds
        if _batch_bytes(example, size) * sets * (GRADIENT_BATCHES + 1) >= MEMORY:
            sets = 1
        if on.examples is None:
            shape = _readout_shape(model, example)
            with one_sentence_errors(f"Batches of {size} examples cannot be made"):
                batches = random_batches(example, shape, size, sets * (GRADIENT_BATCHES + 1), 0)
        else:
            batches = _shuffled_batches(on.examples, size, sets)
    plan = None if on.options.own_init else init_plan(model, batches[0][0])

    def build_initialized() -> nn.Module:
        fresh, _ = build(spec, input=input)
        if plan is not None:
            apply_plan(fresh, plan)
        return fresh

    return build_initialized, batches


def _batch_bytes(example: Any, size: int) -> float:
    """The size of a batch in bytes."""
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(example) if isinstance(leaf, Tensor)]
    return sum(size * leaf.nbytes / leaf.shape[0] for leaf in leaves if leaf.dim())


def _readout_shape(model: nn.Module, example: Any) -> tuple[int, ...]:
    """(batch, classes) or (batch, tokens, classes)."""
    args, kwargs = arguments_of(example)
    try:
        with torch.no_grad():
            logits = model.eval()(*args, **kwargs)
    except Exception as error:
        raise cannot_run(error) from error
    shape = tuple(readout_of(logits).shape)
    if len(shape) not in (2, 3) or shape[-1] < 2:
        raise DepthlrError(
            f"the readout has shape {shape}: on random inputs measuring takes class scores, (batch, classes) or "
            "(batch, tokens, classes) with two classes or more; name your own --data and --loss."
        )
    return shape


def _shuffled_batches(examples: Examples, size: int, sets: int) -> Batches:
    """Batches of the examples, in a new order for every set."""
    # At most one pass over the examples, if that is enough: the evaluated batch must not be one that was trained on.
    count = min(GRADIENT_BATCHES + 1, max(3, len(examples) // size))
    shuffles = [batch_order(len(examples), size, count, seed) for seed in range(sets)]
    found = [examples.batch(indices) for shuffle in shuffles for indices in shuffle]
    return [((inputs,), target) for inputs, target in found]


def note_initialization(options: MeasurementOptions, *models: str) -> None:
    """Say if the measured weights are not those of the user's models.

    Args:
        options: What the user wrote.
        models: The models that are measured.
    """
    if not options.own_init and any(parse_spec(model).family != "zoo" for model in models):
        print_note("note: weights were drawn anew by init_; --own-init keeps those that the model comes with.")
