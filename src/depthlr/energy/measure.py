"""Measuring update energy: one backward pass for the step, one forward-mode pass for its effect on every unit.

Delta z_l = sum_a (d z_l / d theta_a) Delta theta_a          (Eq. 3, linearised; Delta theta = the optimizer's step)
S_l       = mean over coordinates and examples of (Delta z_l)^2        (Eq. 4, at rate 1)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from depthlr.energy.batch import LossFn, batches_of, checked, split
from depthlr.energy.energy import Energy, UnitEnergy
from depthlr.energy.gradient import (
    check_followed,
    check_measurable,
    check_moves,
    gradients_of,
    largest_entry,
    leaves_of,
    loss_of,
    same_conditions,
    which_readout,
)
from depthlr.energy.progress import measured_batch, measuring
from depthlr.energy.step import step_direction
from depthlr.energy.tangent import mean_product, moved, value_and_change
from depthlr.errors import DepthlrError
from depthlr.law.domain import MOST_SEED, whole
from depthlr.trace.depth import Depth, Units, check_units, depth_of
from depthlr.trace.graph import ROOT, Graph
from depthlr.trace.observe import CallObserver, Moment
from depthlr.trace.record import Recorder, readouts_of
from depthlr.trace.run import Arguments, cannot_run, check_runnable, unwrap

LIMIT = 4  # batches of a loader, if not told


def update_energy(
    model: nn.Module,
    batches: Any,
    loss_fn: LossFn | None = None,
    optimizer: Any = "sgd",
    *,
    probe: Any = None,
    units: Units = None,
    seed: int = 0,
    limit: int | None = None,
) -> Energy:
    """Energy of one optimizer step at every unit and at the readout, for this very initialisation, at rate 1.

    Model, gradients, buffers and random states are left as they were.

    Args:
        model: Initialised as it will be trained.
        batches: One (inputs, target) or several, over which energies are averaged. A batch is what one optimizer step
            sees: with gradient accumulation, all micro-batches of a step together.
        loss_fn: The loss is `loss_fn(model(inputs), target)`. If None, it is the one that the model's output holds, as
            that of a Hugging Face model does where the batch is a mapping with labels.
        optimizer: An object, a list of them, a name, an optimizer's class, or a factory that takes the model, such as
            `lambda model: AdamW(model.parameters())`. Its real next step is the direction.
        probe: The batch on which the step is measured; if None, the batch that it learns from.
        units: As in `effective_depth`.
        seed: Fixes dropout, stochastic depth and what a loader draws.
        limit: How many batches are used; if None, all of a list and four of a loader.
    """
    model = unwrap(model)
    check_runnable(model)
    parameters = dict(model.named_parameters())
    check_measurable(model, parameters)
    check_units(units)
    seed = whole(seed, "The seed", most=MOST_SEED)
    if isinstance(units, int):
        raise DepthlrError("units= as a number says nothing about where to measure: pass classes, such as [Block].")
    device = next(iter(parameters.values())).device
    given = batches_of(batches, limit, LIMIT, seed)
    measured = []
    with measuring(len(given)):
        for batch in given:
            arguments, target = split(batch, device)
            with same_conditions(model, seed, loss_fn):
                graph, gradients, loss = _backward(
                    model, parameters, arguments, target, loss_fn, recurrent=units is not None
                )
            depth = depth_of(graph, units)  # while a GPU still works on the gradient
            check_moves(largest_entry(loss, gradients))
            direction = step_direction(optimizer, model, gradients)
            arguments, _ = split(batch if probe is None else checked(probe), device)
            with same_conditions(model, seed):
                measured.append(_forward(model, parameters, arguments, direction, graph, depth, float(loss)))
            measured_batch()
    return _average(measured)


def _backward(
    model: nn.Module,
    parameters: dict[str, nn.Parameter],
    arguments: Arguments,
    target: Any,
    loss_fn: LossFn | None,
    *,
    recurrent: bool,
) -> tuple[Graph, dict[str, Tensor], Tensor]:
    """The graph of the forward pass, and the gradient of the loss; `.grad` is not touched."""
    leaves = leaves_of(parameters)
    for integers_are_signal in (False, True):  # as in counting: one-hot tokens and byte images start as integers
        recorder = Recorder(model, leaves, allow_recurrence=recurrent, integers_are_signal=integers_are_signal)
        recorder.feed(arguments)
        with torch.enable_grad():
            try:
                with recorder:
                    output = functional_call(model, leaves, *arguments)
                recorder.close(output)
            except DepthlrError:
                raise
            except Exception as error:
                raise cannot_run(error) from error
        if recorder.graph.readout != ROOT:
            break
    check_followed(output, parameters)
    loss = loss_of(output, target, loss_fn)
    recorder.close(output, which_readout(output, loss))
    return recorder.graph, gradients_of(loss, leaves, parameters), loss.detach()


def _forward(
    model: nn.Module,
    parameters: dict[str, nn.Parameter],
    arguments: Arguments,
    direction: dict[str, Tensor],
    graph: Graph,
    depth: Depth,
    loss: float,
) -> Energy:
    """Energies at every unit's pre-activation and at the readout: the tangents of one forward-mode pass."""
    states = [graph.nodes[u.state] for u in depth.units]
    moments = [(node.call, node.name) for node in states]
    squares: dict[Moment, Tensor] = {}

    def observe(moment: Moment, value: Tensor) -> None:
        squares[moment] = _squares(value)

    observer = CallObserver(set(moments), observe)
    with moved(model, parameters, direction, arguments, observer) as output:
        readout = _squares(readouts_of(output)[graph.readout_index])
    # One more or one fewer of an operation before a unit, and its state would be taken from another's.
    otherwise = any(observer.call_counts[name] != graph.call_counts[name] for _, name in moments)
    if otherwise or any(moment not in squares for moment in moments):
        raise DepthlrError(
            "the model did not run the same operations the second time: its control flow is random or depends on the "
            "batch, or a unit hides in a kernel that PyTorch's functions cannot see; try eval mode, or the same batch."
        )
    *values, (change, size) = torch.stack([*(squares[moment] for moment in moments), readout]).tolist()
    return Energy(tuple(UnitEnergy(u, *v) for u, v in zip(depth.units, values, strict=True)), change, size, loss)


def _squares(value: Tensor) -> Tensor:
    """(energy, mean square) of a dual tensor."""
    primal, tangent = value_and_change(value)
    return torch.stack([mean_product(tangent, tangent), mean_product(primal, primal)])


def _average(measured: list[Energy]) -> Energy:
    """Expectation over batches: the mean of each energy."""
    count = len(measured)
    first = measured[0]
    if any(len(m.units) != len(first.units) for m in measured):
        raise DepthlrError("the model has another depth on another batch: pass batches of one shape.")
    units = tuple(
        UnitEnergy(same[0].unit, sum(u.energy for u in same) / count, sum(u.mean_square for u in same) / count)
        for same in zip(*(m.units for m in measured), strict=True)
    )
    return Energy(
        units,
        sum(m.readout for m in measured) / count,
        sum(m.readout_mean_square for m in measured) / count,
        sum(m.loss for m in measured) / count,
    )
