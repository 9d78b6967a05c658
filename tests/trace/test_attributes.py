"""A pass leaves modules as they were: the same objects, with the same contents."""

from __future__ import annotations

import random
from collections import OrderedDict, defaultdict, deque

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr import effective_depth, persistent_energy, suggest_rate, update_energy
from depthlr.trace.preserve import preserve_attributes

EXAMPLE = torch.randn(5, 4)
BATCHES = [(torch.randn(5, 4), torch.randint(2, (5,))) for _ in range(17)]
CALLS = {
    "effective_depth": lambda model: effective_depth(model, EXAMPLE),
    "update_energy": lambda model: update_energy(model, BATCHES[0], F.cross_entropy),
    "persistent_energy": lambda model: persistent_energy(model, BATCHES, F.cross_entropy),
    "suggest_rate": lambda model: suggest_rate(model, BATCHES, F.cross_entropy),
}
every_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


class Keeping(nn.Module):
    """Appends to a list that its neighbours hold too, and writes into all else that it has."""

    def __init__(self, losses: list[Tensor]) -> None:
        super().__init__()
        self.layer, self.losses = nn.Linear(4, 4), losses
        self.history: deque[int] = deque([1])
        self.nested = {"inner": [1]}
        self.counts: defaultdict[str, int] = defaultdict(int, seen=1)
        self.scratch = torch.zeros(1)
        self.generator = torch.Generator().manual_seed(3)
        self.draws = [random.Random(3), np.random.default_rng(3)]
        self.cache = [torch.zeros(1)]

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.layer(x))
        self.losses.append(y.square().mean())
        self.history.append(2)
        self.nested["inner"].append(2)
        self.counts["seen"] += 1
        self.scratch.add_(1)
        self.cache[0].add_(1)
        torch.rand(1, generator=self.generator)
        for generator in self.draws:
            generator.random()
        return x + y


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.losses: list[Tensor] = []
        self.blocks = nn.ModuleList(Keeping(self.losses) for _ in range(3))
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        self.losses.clear()
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@every_call
def test_containers_stay_shared_and_contents_are_put_back(call) -> None:
    torch.manual_seed(0)
    model = Net()
    model(EXAMPLE)
    before, block = list(model.losses), model.blocks[0]
    state = block.generator.get_state()
    call(model)
    assert all(one.losses is model.losses for one in model.blocks)
    assert [id(loss) for loss in model.losses] == [id(loss) for loss in before]
    assert (list(block.history), block.nested, dict(block.counts)) == ([1, 2], {"inner": [1, 2]}, {"seen": 2})
    assert (block.scratch.item(), block.cache[0].item()) == (1, 1)
    again = random.Random(3), np.random.default_rng(3)
    assert [(one.random(), one.random())[1] for one in again] == [one.random() for one in block.draws]
    assert torch.equal(block.generator.get_state(), state)
    model(EXAMPLE)
    assert len(model.losses) == 3


@every_call
def test_hooks_are_removed_by_the_handles_that_were_given_out(call) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    calls = []
    handle = model[0].register_forward_hook(lambda *_: calls.append(1))
    call(model)
    handle.remove()
    calls.clear()
    model(EXAMPLE)
    assert not calls


def test_tensors_that_cannot_be_written_into_are_let_alone() -> None:
    model = nn.Linear(4, 4)
    model.expanded = torch.zeros(1).expand(3)
    with torch.inference_mode():
        model.table = torch.ones(2)
    with preserve_attributes(model):
        model(EXAMPLE)
    assert (model.expanded.tolist(), model.table.tolist()) == ([0, 0, 0], [1, 1])


def test_containers_of_a_kind_of_their_own_are_let_alone() -> None:
    class Frozen(OrderedDict):
        def update(self, *_: object) -> None:
            raise RuntimeError("frozen")

    model = nn.Linear(4, 4)
    model.frozen = frozen = Frozen(a=1)
    with preserve_attributes(model):
        model.frozen = None
    assert model.frozen is frozen


class Normalised(nn.Linear):
    """Writes into its own weight when it runs in training, as forced weight normalisation does."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.weight.copy_(F.normalize(self.weight, dim=1))
        self.bias.data = self.bias.data * 0.5
        return F.linear(x, self.weight, self.bias)


@every_call
def test_weights_that_a_model_writes_into_are_put_back(call) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Normalised(4, 4), nn.ReLU(), Normalised(4, 2))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    call(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@every_call
def test_buffers_that_cannot_be_written_into_are_let_alone(call) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    model[0].register_buffer("expanded", torch.ones(1).expand(4))
    with torch.inference_mode():
        model[0].register_buffer("inferred", torch.ones(4))
    for kind in (torch.eye(3).to_sparse(), torch.ones(2, dtype=torch.complex64), torch.empty(0)):
        model[0].register_buffer(f"of_{kind.layout}_{kind.dtype}_{len(kind)}".replace(".", "_"), kind)
    call(model)


@every_call
def test_a_backward_pass_that_waits_still_runs(call) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    loss = model(EXAMPLE).square().mean()
    call(model)
    loss.backward()
    assert model[0].weight.grad.abs().max() > 0


def test_a_loss_keeps_its_state() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, output: Tensor, target: Tensor) -> Tensor:
            self.seen += 1
            return F.cross_entropy(output, target) * self.seen  # which the backward pass needs

    torch.manual_seed(0)
    model, loss = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), Counting()
    plain = update_energy(model, BATCHES[0], F.cross_entropy)
    assert update_energy(model, BATCHES[0], loss) == plain
    suggest_rate(model, BATCHES, loss)
    assert loss.seen == 0
