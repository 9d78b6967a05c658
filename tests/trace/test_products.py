"""Every way to write a product of the signal and a weight counts as that product does, and is initialized like it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr.energy import update_energy
from depthlr.init import init_plan
from depthlr.trace import effective_depth

WIDTH, LAYERS = 6, 3
EXAMPLE = torch.randn(5, WIDTH)


class Stack(nn.Module):
    """Plain layers whose product is given."""

    def __init__(self, product, shape=(WIDTH, WIDTH)) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weights = nn.ParameterList(torch.randn(shape, generator=generator) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 2)
        self.product = product

    def forward(self, x: Tensor) -> Tensor:
        for weight in self.weights:
            x = torch.relu(self.product(x, weight))
        return self.head(x.reshape(len(x), WIDTH, -1).mean(-1))


def judged(model: nn.Module, example: Tensor) -> tuple[object, ...]:
    """What a product is to depth and to initialization."""
    units = [(u.kind, u.role, u.width) for u in effective_depth(model, example).units]
    return units, [(p.become, p.std) for p in init_plan(model, example)]


@pytest.mark.parametrize(
    "product",
    [
        torch.linalg.matmul,
        lambda x, w: torch.linalg.multi_dot([x, w]),
        torch.chain_matmul,
        lambda x, w: torch.linalg.vecdot(x[:, None], w.t()),
        lambda x, w: torch.linalg.vecdot(x[:, :, None], w, dim=1),
        lambda x, w: torch.inner(x, w.t()),
        lambda x, w: torch.sparse.mm(x.to_sparse(), w),
        torch.ops.aten.mm.default,
        torch.ops.aten.mm,
        lambda x, w: torch.ops.aten.linear.default(x, w.t()),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_matrix_products(product) -> None:
    assert judged(Stack(product), EXAMPLE) == judged(Stack(torch.matmul), EXAMPLE)


def test_the_weight_may_stand_on_the_left() -> None:
    left = Stack(lambda x, w: (w.t() @ x.t()).t())
    assert judged(Stack(lambda x, w: torch.linalg.multi_dot((w.t(), x.t())).t()), EXAMPLE) == judged(left, EXAMPLE)


@pytest.mark.parametrize("convolution", [torch.convolution, torch.ops.aten.convolution.default])
@pytest.mark.parametrize(("transposed", "stride"), [(False, 1), (True, 1), (True, 2)])
def test_convolutions_of_any_kind_in_one_function(convolution, transposed: bool, stride: int) -> None:
    own = F.conv_transpose2d if transposed else F.conv2d
    shape, example = (WIDTH, WIDTH, 2, 2), torch.randn(3, WIDTH, 5, 5)
    pairs = [stride, stride], [0, 0], [1, 1], transposed, [0, 0], 1
    model = Stack(lambda x, w: convolution(x, w, None, *pairs), shape)
    assert judged(model, example) == judged(Stack(lambda x, w: own(x, w, stride=stride), shape), example)


def test_a_product_of_two_weights_is_one_layer_that_they_share() -> None:
    pair = Stack(lambda x, w: x)
    pair.forward = lambda x: pair.head(torch.linalg.multi_dot([x, *pair.weights]))
    assert effective_depth(pair, EXAMPLE).total == 2
    assert {p.become for p in init_plan(pair, EXAMPLE) if p.name.startswith("weights")} == {"kept"}


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 9), nn.Linear(9, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.outer(F.relu(self.inner(self.norm(x))))


def test_exported_models_count_as_they_did_and_their_weights_are_initialized_so() -> None:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Branch(), Branch(), nn.Linear(WIDTH, 2))
    exported = torch.export.export(model, (EXAMPLE,))
    for same in (exported.module(), exported.run_decompositions().module()):
        assert [(u.kind, u.role) for u in effective_depth(same, EXAMPLE).units] == [
            (u.kind, u.role) for u in effective_depth(model, EXAMPLE).units
        ]
        planned = {p.name: p.std for p in init_plan(model, EXAMPLE, branch_scale="none") if p.become == "normal"}
        found = {p.name: p.std for p in init_plan(same, EXAMPLE, branch_scale="none") if p.become == "normal"}
        assert found == planned


def test_energies_are_seen_at_overloads_too() -> None:
    batch = EXAMPLE, torch.tensor([0, 1, 0, 1, 1])
    named, overload = Stack(torch.mm), Stack(torch.ops.aten.mm.default)
    overload.load_state_dict(named.state_dict())
    first, second = (update_energy(model, batch, F.cross_entropy).rate for model in (named, overload))
    assert second == pytest.approx(first)


def test_a_parameter_of_an_unknown_operation_is_no_token() -> None:
    class Unknown(nn.Module):
        def __init__(self, join) -> None:
            super().__init__()
            self.w, self.head, self.join = nn.Parameter(torch.randn(5, WIDTH)), nn.Linear(WIDTH, 2), join

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.join(x, self.w))

    def becomes(join) -> str:
        return {p.name: p.become for p in init_plan(Unknown(join), EXAMPLE)}["w"]

    for join in (torch.atan2, torch.fmod, torch.hypot, torch.maximum, lambda x, w: torch.addcmul(x, w, x)):
        assert becomes(join) == "kept"
    for join in (torch.add, torch.sub, lambda x, w: torch.cat([x, w]), lambda x, w: torch.where(x > 0, x, w)):
        assert becomes(join) == "token"
