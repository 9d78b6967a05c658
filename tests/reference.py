"""Slow, obvious versions of what depthlr computes cleverly: float64, tiny shapes, dense Jacobians."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

States = Callable[[nn.Module, Tensor], list[Tensor]]


def mlp_states(model: Any, x: Tensor) -> list[Tensor]:
    """Pre-activations of every hidden layer, then the logits."""
    states, a = [], x.flatten(1)
    for linear, activation in zip(model.hidden, model.activations, strict=True):
        states.append(linear(a))
        a = activation(states[-1])
    return [*states, model.head(a)]


def cnn_states(model: Any, x: Tensor) -> list[Tensor]:
    states, z = [], x
    for layer in model.layers:
        z = layer(z)
        states.append(z)
    return [*states, model.head(model.last_activation(z).flatten(2).mean(2))]


def resnet_states(model: Any, x: Tensor) -> list[Tensor]:
    """The stem, the stream after each update, the logits."""
    z = model.plain[0](x)
    states = [z]
    for block in model.blocks:
        z = z + block.branch(z)
        states.append(z)
    return [*states, model.head(model.last_activation(z).mean((2, 3)))]


def vit_states(model: Any, x: Tensor) -> list[Tensor]:
    """The patch embedding, the stream after each update (after its norm in post-LN), the logits."""
    embedded = model.embedding(x)
    z = torch.cat((model.class_token.expand(len(x), -1, -1), embedded), dim=1) + model.positions
    states = [embedded]
    for block in model.blocks:
        if block.post:
            z = block.norm1(z + block.drop1(block.attention(z)))
            states.append(z)
            z = block.norm2(z + block.drop2(block.feed_forward(z)))
        else:
            z = z + block.drop1(block.attention(block.norm1(z)))
            states.append(z)
            z = z + block.drop2(block.feed_forward(block.norm2(z)))
        states.append(z)
    return [*states, model.head(model.norm(z[:, 0]))]


class _States(nn.Module):
    def __init__(self, model: nn.Module, states: States) -> None:
        super().__init__()
        self.model, self.states = model, states

    def forward(self, x: Tensor) -> list[Tensor]:
        return self.states(self.model, x)


def dense_energies(
    model: nn.Module, states: States, x: Tensor, y: Tensor, loss_fn: Any, optimizer: Any, seed: int
) -> list[float]:
    """Mean square of (dense Jacobian of each state) times (the difference a real optimizer step makes) / rate."""
    moved = copy.deepcopy(model)
    made = optimizer(moved)
    optimizers = made if isinstance(made, list) else [made]
    torch.manual_seed(seed)
    loss_fn(moved(x), y).backward()
    for one in optimizers:
        one.step()
    rate = optimizers[0].param_groups[0]["lr"]
    watched = _States(copy.deepcopy(model), states)
    before = {n: p.detach() for n, p in watched.named_parameters()}
    after = {f"model.{n}": p.detach() for n, p in moved.named_parameters()}
    buffers = {n: b.detach().clone() for n, b in watched.named_buffers()}

    def run(parameters: dict[str, Tensor]) -> list[Tensor]:
        torch.manual_seed(seed)
        fresh = {n: b.clone() for n, b in buffers.items()}
        return functional_call(watched, {**parameters, **fresh}, (x,))

    energies = []
    for index in range(len(run(before))):
        jacobian = jacrev(lambda p, i=index: run(p)[i])(before)
        change = sum(
            torch.tensordot(j, (after[n] - before[n]) / rate, dims=before[n].dim()) for n, j in jacobian.items()
        )
        energies.append(float(change.square().mean()))
    return energies


def dense_persistent_energy(
    model: nn.Module, batches: list[tuple[Tensor, Tensor]], loss_fn: Any, optimizer: Any, seed: int
) -> tuple[float, float]:
    """(mean product, mean of their own mean squares) of two changes, over the readout's mean square.

    A change is (dense Jacobian of the readout on the last batch) times (a real step on one half's mean loss) / rate.
    """
    *learnt, (x, _) = batches
    before = {n: p.detach() for n, p in model.named_parameters()}
    buffers = {n: b.detach().clone() for n, b in model.named_buffers()}

    def readout(parameters: dict[str, Tensor]) -> Tensor:
        torch.manual_seed(seed + len(learnt))
        fresh = {n: b.clone() for n, b in buffers.items()}
        return functional_call(model, {**parameters, **fresh}, (x,))

    jacobian = jacrev(readout)(before)
    changes = []
    places = list(enumerate(learnt))
    for half in (places[::2], places[1::2]):
        moved = copy.deepcopy(model)
        made = optimizer(moved)
        optimizers = made if isinstance(made, list) else [made]
        for place, (inputs, target) in half:
            torch.manual_seed(seed + place)
            (loss_fn(moved(inputs), target) / len(half)).backward()
        for one in optimizers:
            one.step()
        rate = optimizers[0].param_groups[0]["lr"]
        steps = {n: (p.detach() - before[n]) / rate for n, p in moved.named_parameters()}
        changes.append(sum(torch.tensordot(j, steps[n], dims=steps[n].dim()) for n, j in jacobian.items()))
    size = readout(before).detach().square().mean()
    own = sum(change.square().mean() for change in changes) / 2
    return float((changes[0] * changes[1]).mean() / size), float(own / size)
