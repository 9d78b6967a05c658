"""Measuring a step: a gradient, one forward-mode pass for the changes, a double backward pass for the curvature.

`depthlr.update_energy` gives the same energies; this keeps the coherent part, the slope and the curvature as well.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from depthlr.energy.step import step_direction
from depthlr.trace.depth import depth_of
from depthlr.trace.graph import Graph
from depthlr.trace.preserve import force_eager, preserve_state
from depthlr.trace.recorder import Watch
from depthlr.trace.tracing import trace
from experiments.transferbench.step import Change, Step

Batch = tuple[Tensor, Tensor]
LossFn = Callable[[Any, Tensor], Tensor]
Direction = Mapping[str, Tensor]


class Probe:
    """Measures steps of one model, whose graph is recorded once."""

    def __init__(self, model: nn.Module, inputs: Tensor, loss_fn: LossFn) -> None:
        self.model, self.loss_fn = model, loss_fn
        self.graph: Graph = trace(model, (inputs,), keep_training_mode=True)
        self.depth = depth_of(self.graph)

    def next_step(self, batch: Batch, optimizer: Any) -> Step:
        """The optimizer's real next step (an object, a list or a factory), learnt from this batch and seen on it."""
        start = now(self.model)
        loss, gradients = self._gradients(batch)
        direction = step_direction(optimizer, self.model, gradients)
        changes, readout, gauss_newton = self._changes(batch[0], direction)
        slope = _product(gradients, direction)
        middle = now(self.model)
        curvature = self._curvature(batch, direction)
        hidden = tuple(c for c, u in zip(changes, self.depth.units, strict=True) if u.role != "head") or tuple(changes)
        return Step(hidden, readout, loss, slope, curvature, gauss_newton, middle - start, now(self.model) - middle)

    def _gradients(self, batch: Batch) -> tuple[float, dict[str, Tensor]]:
        leaves = _leaves(self.model)
        with self._conditions():
            loss = self.loss_fn(functional_call(self.model, leaves, (batch[0],)), batch[1])
            found = torch.autograd.grad(loss, list(leaves.values()))
        return float(loss.detach()), dict(zip(leaves, found, strict=True))

    def _curvature(self, batch: Batch, direction: Direction) -> float:
        """d'Hd, by differentiating g.d once more."""
        leaves = _leaves(self.model)
        with self._conditions():
            loss = self.loss_fn(functional_call(self.model, leaves, (batch[0],)), batch[1])
            gradients = torch.autograd.grad(loss, list(leaves.values()), create_graph=True)
            slope = sum((g * direction[n]).sum() for n, g in zip(leaves, gradients, strict=True))
            assert isinstance(slope, Tensor)
            found = torch.autograd.grad(slope, list(leaves.values()), allow_unused=True)
        bends = {n: bend for n, bend in zip(leaves, found, strict=True) if bend is not None}
        return _product(bends, direction)

    def _changes(self, inputs: Tensor, direction: Direction) -> tuple[list[Change], Change, float]:
        states = [unit.state for unit in self.depth.units]
        seen: dict[int, Tensor] = {}

        def see(node: int, value: Tensor) -> None:
            seen[node] = _squares(value)

        with self._conditions(), forward_ad.dual_level(), torch.no_grad():
            duals = {
                name: forward_ad.make_dual(p.detach(), direction[name])  # type: ignore[no-untyped-call]
                for name, p in self.model.named_parameters()
            }
            with Watch(self.graph, set(states), see).recorder(self.model, duals, ((inputs,), {})):
                output = functional_call(self.model, duals, (inputs,))
            readout = _squares(output)
            bend = _gauss_newton(output)
        *rows, last = torch.stack([*(seen[node] for node in states), readout]).tolist()
        return [Change(*row) for row in rows], Change(*last), bend

    @contextlib.contextmanager
    def _conditions(self) -> Iterator[None]:
        # As in depthlr.energy: forward mode has no formula for the fused attention kernels.
        with force_eager(), preserve_state(self.model, 0), sdpa_kernel(SDPBackend.MATH):
            yield


def now(model: nn.Module) -> float:
    """Seconds of the performance counter, when the model's device has done all it was asked."""
    if next(model.parameters()).is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter()


def _leaves(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().requires_grad_() for name, p in model.named_parameters()}


def _product(of: Direction, direction: Direction) -> float:
    return float(torch.stack([(value * direction[name]).double().sum() for name, value in of.items()]).sum())


def _squares(value: Tensor) -> Tensor:
    """(energy, mean square, coherent energy) of a dual tensor whose first dimension counts the examples."""
    primal, tangent = forward_ad.unpack_dual(value)  # type: ignore[no-untyped-call]
    tangent = torch.zeros_like(primal) if tangent is None else tangent
    return torch.stack([part.square().mean().double() for part in (tangent, primal, tangent.mean(0))])


def _gauss_newton(logits: Tensor) -> float:
    """d'Gd of the mean cross-entropy: the variance of the change of the logits under the prediction."""
    primal, tangent = forward_ad.unpack_dual(logits)  # type: ignore[no-untyped-call]
    share = primal.softmax(-1)
    variance = (share * tangent.square()).sum(-1) - (share * tangent).sum(-1).square()
    return float(variance.mean())
