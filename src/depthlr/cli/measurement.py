"""What `measure`, `suggest`, `check` and `transfer` measure: an initialised model with batches and a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor, nn

from depthlr.cli.options import DEFAULT_LOSS, RANDOM
from depthlr.cli.output import PlainConsole, print_note
from depthlr.data.batches import batch_order, random_batches
from depthlr.data.examples import Examples
from depthlr.data.sources import load
from depthlr.energy.batches import GRADIENT_BATCHES
from depthlr.energy.progress import ShowProgress, use_display
from depthlr.errors import DepthlrError, kind_and_message
from depthlr.init.plan import apply_plan, init_plan
from depthlr.models.build import build
from depthlr.models.spec import parse_spec
from depthlr.python_name import is_python_name, python_callable
from depthlr.trace.run import LossFn, arguments_of, cannot_run, readout_of
from depthlr.training.task import mean_cross_entropy

MEMORY = 2**30  # bytes of batches; if more are needed, all initialisations share one set of batches
Batches = list[tuple[Any, Tensor]]


@dataclass(frozen=True)
class MeasurementData:
    """The data and the loss on which models are measured."""

    examples: Examples | None  # None: random inputs of the shape that each model takes
    input: str | None
    batch: int
    loss_fn: LossFn


def measurement_data(
    data: str, batch: int, loss: str = DEFAULT_LOSS, *, folder: str | None = None, input: str | None = None
) -> MeasurementData:
    """Load the data and find the loss.

    Args:
        data: `random`, a data set's name, or the user's own, `package.module:callable`.
        batch: How many examples one optimizer step sees.
        loss: `cross_entropy`, or the user's own, `package.module:function`.
        folder: Where the data set lies.
        input: The shape of a random example.
    """
    if batch < 1:
        raise DepthlrError(f"A batch of {batch} examples has no gradient: choose at least 1.")
    loss_fn = _find_loss(loss)
    if data == RANDOM:
        if folder is not None:
            raise DepthlrError("--folder is where a data set lies, and random inputs lie nowhere: name --data too.")
        return MeasurementData(None, input, batch, loss_fn)
    examples = load(data, folder)
    if input is not None:
        raise DepthlrError(f"--input and --data {data} contradict each other: its examples are {examples.input}.")
    if examples.classes == 0 and loss == DEFAULT_LOSS:
        raise DepthlrError(
            f"The targets of {data} are numbers to regress on, and cross-entropy takes classes: name your own loss, "
            "--loss package.module:function."
        )
    return MeasurementData(examples, examples.input, batch, loss_fn)


def _find_loss(name: str) -> LossFn:
    if name == DEFAULT_LOSS:
        return mean_cross_entropy
    if not is_python_name(name):
        raise DepthlrError(f"--loss {name}: write {DEFAULT_LOSS}, or your own as package.module:function.")
    found: LossFn = python_callable(name)
    return found


@contextmanager
def progress_bar() -> Iterator[None]:
    """Show the progress of measurements, and the time left, on stderr if it is a terminal."""
    console = PlainConsole(stderr=True)
    text, count = TextColumn("{task.description}"), MofNCompleteColumn()

    @contextmanager
    def bar() -> Iterator[ShowProgress]:
        with Progress(
            *(text, BarColumn(), count, "batches,", TimeRemainingColumn(), "left"),
            console=console,
            transient=True,
            redirect_stdout=False,  # output of the user's own code stays where it is sent
            redirect_stderr=False,
            disable=not console.is_terminal,
        ) as shown:
            row = shown.add_task("", total=None)
            yield lambda what, done, total: shown.update(row, description=what, completed=done, total=total)

    with use_display(bar):
        yield


@dataclass(frozen=True)
class Measurement:
    """A model to measure. `build()` makes it under the current seed; batches and loss fit to it."""

    build: Callable[[], nn.Module]
    batches: Batches
    loss_fn: LossFn
    redrawn: bool  # whether init_ replaced the weights of the user's own code


def note_redrawn(*given: Measurement) -> None:
    """Say once that the measured weights are not those of the user's model."""
    if any(one.redrawn for one in given):
        print_note("note: weights were drawn anew by init_; --own-init keeps those that the model comes with.")


def prepare_measurement(
    spec: str,
    on: MeasurementData,
    *,
    own_init: bool = False,
    seed: int = 0,
    draws: int = 1,
    batches: Batches | None = None,
) -> Measurement:
    """A model with batches to measure it on.

    Args:
        spec: The model.
        on: The data, the size of a batch, and the loss.
        own_init: Keep the initialisation that the model's builder gave it.
        seed: Of the batches.
        draws: How many initialisations will be measured; each has batches of its own.
        batches: Those of another task, to share.
    """
    model, example = build(spec, input=on.input)
    if batches is None:
        sets = draws if _batch_bytes(example, on.batch) * draws * (GRADIENT_BATCHES + 1) < MEMORY else 1
        if on.examples is None:
            batches = _random_batches(model, example, on.batch, sets, seed)
        else:
            batches = _shuffled_batches(on.examples, on.batch, sets, seed)
    plan = None if own_init else init_plan(model, batches[0][0])

    def build_initialised() -> nn.Module:
        fresh, _ = build(spec, input=on.input)
        if plan is not None:
            apply_plan(fresh, plan)
        return fresh

    return Measurement(
        build_initialised, batches, on.loss_fn, redrawn=not own_init and parse_spec(spec).family != "zoo"
    )


def _shuffled_batches(examples: Examples, size: int, sets: int, seed: int) -> Batches:
    """Batches of the examples, in a new order for every set."""
    # At most one pass over the examples, if that is enough: the evaluated batch must not be one that was trained on.
    count = min(GRADIENT_BATCHES + 1, max(3, len(examples) // size))
    shuffles = [batch_order(len(examples), size, count, seed + place) for place in range(sets)]
    found = [examples.batch(indices) for shuffle in shuffles for indices in shuffle]
    return [((inputs,), target) for inputs, target in found]


def _random_batches(model: nn.Module, example: Any, size: int, sets: int, seed: int) -> Batches:
    try:
        return random_batches(example, _readout_shape(model, example), size, sets * (GRADIENT_BATCHES + 1), seed)
    except (RuntimeError, MemoryError, OverflowError, TypeError) as error:  # torch: it does not fit in memory
        raise DepthlrError(
            f"Batches of {size} examples cannot be made ({kind_and_message(error)}): choose a smaller --batch."
        ) from error


def _batch_bytes(example: Any, size: int) -> float:
    """The size of a batch in bytes."""
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(example) if isinstance(leaf, Tensor)]
    return sum(size * leaf.nbytes / leaf.shape[0] for leaf in leaves if leaf.dim())


def _readout_shape(model: nn.Module, example: Any) -> tuple[int, ...]:
    """(batch, classes) or (batch, tokens, classes)."""
    args, kwargs = arguments_of(example)
    training = model.training
    try:
        with torch.no_grad():
            logits = readout_of(model.eval()(*args, **kwargs))
    except DepthlrError:
        raise
    except Exception as error:
        raise cannot_run(error) from error
    finally:
        model.train(training)
    if logits.dim() not in (2, 3) or logits.shape[-1] < 2:
        raise DepthlrError(
            f"the readout has shape {tuple(logits.shape)}: on random inputs measuring takes class scores, (batch, "
            "classes) or (batch, tokens, classes) with two classes or more; name your own --data and --loss."
        )
    return tuple(logits.shape)
