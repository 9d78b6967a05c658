"""Measuring update energy: one backward pass for the step, one forward-mode pass for its effect on every unit.

Delta z_l = sum_a (d z_l / d theta_a) Delta theta_a          (Eq. 3, linearised; Delta theta = the optimizer's step)
S_l       = mean over coordinates and examples of (Delta z_l)^2        (Eq. 4, at rate 1)
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from depthlr.energy.batch import LossFn, batches_of, split
from depthlr.energy.energy import Energy, UnitEnergy
from depthlr.energy.step import step_direction
from depthlr.errors import DepthlrError
from depthlr.trace.depth import Depth, Units, check_units, depth_of
from depthlr.trace.graph import ROOT, Graph
from depthlr.trace.record import CallObserver, Recorder, readouts_of
from depthlr.trace.run import Arguments, cannot_run, check_runnable, eager, untouched
from depthlr.trace.unwrap import is_sharded, unwrap


def update_energy(
    model: nn.Module,
    batches: Any,
    loss_fn: LossFn,
    optimizer: Any = "sgd",
    *,
    probe: Any = None,
    units: Units = None,
    seed: int = 0,
    limit: int = 4,
) -> Energy:
    """Energy of one optimizer step at every unit and at the readout, for this very initialisation, at rate 1.

    `batches` is one (inputs, target) or several, over which energies are averaged; each is both what the step learns
    from and what it is measured on, unless `probe` names another batch. The loss is `loss_fn(model(inputs), target)`.
    `optimizer` is the user's own (an object, a list, a factory or a name): its real next step is the direction.
    `seed` fixes dropout and stochastic depth. Model, gradients, buffers and random states are left as they were.
    """
    model = unwrap(model)
    check_runnable(model)
    parameters = dict(model.named_parameters())
    check_measurable(model, parameters)
    check_units(units)
    if isinstance(units, int):
        raise DepthlrError("units= as a number says nothing about where to measure: pass classes, such as [Block].")
    device = next(iter(parameters.values())).device
    measured = []
    for batch in batches_of(batches, limit):
        arguments, target = split(batch, device)
        with _same_conditions(model, seed):
            graph, gradients, loss = _backward(
                model, parameters, arguments, target, loss_fn, recurrent=units is not None
            )
        depth = depth_of(graph, units)  # while a GPU still works on the gradient
        _check_step(loss, gradients)
        direction = step_direction(optimizer, parameters, gradients)
        if probe is not None:
            arguments, _ = split(probe, device)
        with _same_conditions(model, seed):
            measured.append(_forward(model, parameters, arguments, direction, graph, depth, float(loss)))
    return _average(measured)


def check_measurable(model: nn.Module, parameters: dict[str, nn.Parameter]) -> None:
    """Refuse models on which no step can be taken here."""
    if is_sharded(model):
        raise DepthlrError("update energy needs whole weights: measure before wrapping the model in FSDP.")
    if any(p.is_meta for p in parameters.values()):
        raise DepthlrError("the model's weights are on the meta device: energies need real ones.")
    if not any(p.requires_grad for p in parameters.values()):
        raise DepthlrError("every parameter is frozen, so a step changes nothing.")


@contextlib.contextmanager
def _same_conditions(model: nn.Module, seed: int) -> Iterator[None]:
    # Forward mode has no formula for the fused attention kernels, and they draw dropout otherwise than the plain one:
    # both passes use the plain one, so that they see the same network.
    with eager(), untouched(model, seed), sdpa_kernel(SDPBackend.MATH):
        yield


def _backward(
    model: nn.Module,
    parameters: dict[str, nn.Parameter],
    arguments: Arguments,
    target: Any,
    loss_fn: LossFn,
    *,
    recurrent: bool,
) -> tuple[Graph, dict[str, Tensor], Tensor]:
    """The graph of the forward pass, and the gradient of the loss; `.grad` is not touched."""
    leaves = {n: p.detach().requires_grad_(p.requires_grad) for n, p in parameters.items()}
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
    with torch.enable_grad():
        try:
            loss = loss_fn(output, target)
        except Exception as error:
            raise DepthlrError(f"loss_fn failed on the model's output ({type(error).__name__}: {error}).") from error
    if not isinstance(loss, Tensor) or loss.numel() != 1:
        raise DepthlrError("loss_fn must return one number as a tensor: reduce it, for example by its mean.")
    moving = {n: leaf for n, leaf in leaves.items() if leaf.requires_grad}
    if not loss.requires_grad:
        raise DepthlrError("the loss does not depend on any trainable parameter, so its gradient is zero.")
    readouts = readouts_of(output)
    if len(readouts) > 1:
        recorder.close(output, _which_readout(readouts, loss))
    if _has_reentrant_checkpoint(loss):
        raise DepthlrError("the model checkpoints with use_reentrant=True, which hides gradients: use_reentrant=False.")
    found = torch.autograd.grad(loss, list(moving.values()), allow_unused=True)
    gradients = {n: g for n, g in zip(moving, found, strict=True) if g is not None}
    return recorder.graph, gradients, loss.detach()


def _which_readout(readouts: Sequence[Tensor], loss: Tensor) -> int:
    """Of several outputs the first one that the loss reads and that leads to no other one it reads."""

    def leads(to: Tensor) -> list[bool]:
        found = torch.autograd.grad(to.abs().sum(), moving, allow_unused=True, retain_graph=True)
        return [gradient is not None for gradient in found]

    places = [place for place, tensor in enumerate(readouts) if tensor.requires_grad]
    moving = [readouts[place] for place in places]
    if not moving:
        return 0
    read = [place for place, reads in enumerate(leads(loss)) if reads]
    behind = {place: leads(moving[place]) for place in read}
    last = [place for place in read if not any(behind[other][place] for other in read if other != place)]
    return places[last[0]] if last else 0


def _has_reentrant_checkpoint(loss: Tensor) -> bool:
    seen, pending = set(), [loss.grad_fn]
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        if node.name() == "CheckpointFunctionBackward":
            return True
        seen.add(node)
        pending.extend(following for following, _ in node.next_functions)
    return False


def _check_step(loss: Tensor, gradients: dict[str, Tensor]) -> None:
    """Refuse a loss or a gradient that no step can be taken from."""
    sizes = [(g.to_dense() if g.is_sparse else g).abs().max().double() for g in gradients.values()]
    value, largest = torch.stack([loss.double(), torch.stack(sizes).max()]).tolist()
    if not math.isfinite(value):
        raise DepthlrError(f"the loss is {value} on this batch, so it has no step: check the data and the init.")
    if not math.isfinite(largest):
        raise DepthlrError("the gradient has NaN or infinite entries, so it has no step: check the data and the init.")
    if largest == 0:
        raise DepthlrError("the gradient is zero everywhere, so no rate moves the model: check the loss and the init.")


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
    squares: dict[int, Tensor] = {}

    def observe(call: int, value: Tensor) -> None:
        squares[call] = _squares(value)

    with forward_ad.dual_level(), torch.no_grad():
        duals = {n: p.detach() for n, p in parameters.items()}
        for name, change in direction.items():
            duals[name] = forward_ad.make_dual(duals[name], change)  # type: ignore[no-untyped-call]
        observer = CallObserver({node.call: node.name for node in states}, observe)
        try:
            with observer:
                output = functional_call(model, duals, *arguments)
        except NotImplementedError as error:
            detail = str(error).splitlines()[0]
            raise DepthlrError(
                f"an operation of the model has no forward-mode derivative in this PyTorch ({detail})."
            ) from error
        readout = _squares(readouts_of(output)[graph.which])
    if any(node.call not in squares for node in states):
        raise DepthlrError(
            "the model did not run the same operations the second time: its control flow is random or depends on the "
            "batch, or a unit hides in a kernel that PyTorch's functions cannot see; try eval mode, or the same batch."
        )
    *values, (change, size) = torch.stack([*(squares[node.call] for node in states), readout]).tolist()
    return Energy(tuple(UnitEnergy(u, *v) for u, v in zip(depth.units, values, strict=True)), change, size, loss)


def _squares(value: Tensor) -> Tensor:
    """(energy, mean square) of a dual tensor."""
    primal, tangent = forward_ad.unpack_dual(value)  # type: ignore[no-untyped-call]
    if tangent is None:
        tangent = torch.zeros_like(primal)
    return torch.stack([_mean_square(tangent), _mean_square(primal)])


def _mean_square(tensor: Tensor) -> Tensor:
    # Half precision overflows when squared; complex values count by their modulus.
    wide = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    wide = wide.float() if wide.dtype in (torch.float16, torch.bfloat16) else wide
    return wide.square().mean().double()


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
