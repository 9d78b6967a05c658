"""The law is not combined with a forward multiplier, and rates of two optimizers are told about."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from depthlr import DepthlrError, Recipe, effective_depth, param_groups, transfer_rate

EXAMPLE = torch.zeros(2, 4)
WAYS = {
    "times": lambda x, branch, c: x + branch(x) * c,
    "divided": lambda x, branch, c: x + branch(x) / (1 / c),
    "alpha": lambda x, branch, c: torch.add(x, branch(x), alpha=c),
    "dropout": lambda x, branch, c: nn.functional.dropout(c * branch(x), 0.1) + x,
    "divided in place": lambda x, branch, c: branch(x).div_(1 / c).add_(x),
    "torch.divide": lambda x, branch, c: x + torch.divide(branch(x), 1 / c),
    "torch.true_divide": lambda x, branch, c: x + torch.true_divide(branch(x), 1 / c),
    "tensor": lambda x, branch, c: x + torch.tensor(c) * branch(x),
    "divided by a tensor": lambda x, branch, c: x + branch(x) / torch.tensor([1 / c]),
    "inside": lambda x, branch, c: x + branch[2](c * branch[:2](x)),
    "in place": lambda x, branch, c: branch(x).mul_(c).add_(x),
}


class Net(nn.Module):
    """Residual blocks whose branches are multiplied by a constant."""

    def __init__(self, blocks: int, power: float, way: str = "times") -> None:
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4, bias=False)) for _ in range(blocks)
        )
        self.factor, self.add = blocks**power, WAYS[way]

    def forward(self, x: Tensor) -> Tensor:
        for branch in self.branches:
            x = self.add(x, branch, self.factor)
        return x


def test_a_constant_before_the_stream_is_no_multiplier_of_the_branch() -> None:
    class Damped(Net):
        def forward(self, x: Tensor) -> Tensor:
            for branch in self.branches:
                x = torch.add(branch(x), x, alpha=0.5)
            return x

    assert effective_depth(Damped(4, 0), EXAMPLE).multiplier == 1


@pytest.mark.parametrize("way", WAYS)
def test_the_multiplier_of_the_branches_is_found(way: str) -> None:
    assert effective_depth(Net(4, -0.5, way), EXAMPLE).multiplier == pytest.approx(0.5)
    assert effective_depth(Net(4, 0, way), EXAMPLE).multiplier == 1


class Buffered(nn.Module):
    """The multiplier is a buffer."""

    def __init__(self, width: int, bias: bool = False) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(width, width), nn.Linear(width, width, bias=bias)
        self.register_buffer("factor", torch.tensor(0.25))
        self.gain = nn.Parameter(torch.tensor(0.1))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.factor * self.out(self.into(x).relu())
        x = x + torch.tensor(0.25) * self.out(self.into(x).relu())
        return x + self.gain * self.out(self.factor * self.into(x).relu())


@pytest.mark.parametrize("width", [4, 1600])  # the second runs on fake tensors
def test_a_multiplier_in_a_buffer_is_found_and_a_trained_gain_is_none(width: int) -> None:
    assert effective_depth(Buffered(width), torch.zeros(2, width)).multiplier == 0.25


def test_a_bias_ends_the_search_for_multipliers() -> None:
    model = Buffered(4, bias=True)
    model.forward = lambda x: x + model.out(model.factor * model.into(x).relu())
    assert effective_depth(model, EXAMPLE).multiplier == 1


def test_a_constant_that_the_branch_divides_is_no_multiplier() -> None:
    class Dividing(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.tensor(0.25) / super().forward(x)

    assert effective_depth(Dividing(4, 4), EXAMPLE).multiplier == 1


@pytest.mark.parametrize("power", [-0.5, -1.0])
def test_the_law_is_refused_with_a_multiplier_that_depends_on_depth(power: float) -> None:
    small, large = Net(2, power), Net(8, power)
    fitting, other = ("depth-mup", "completep")[:: 1 if power == -0.5 else -1]
    for rule in ("law", "constant"):
        said = f"the rule '{rule}' on top of it would lower the rate twice: use the rule '{fitting}'"
        with pytest.raises(DepthlrError, match=said):
            transfer_rate(0.1, small, large, EXAMPLE, rule=rule, optimizer="adam")
    assert transfer_rate(0.1, small, large, EXAMPLE, rule=fitting, optimizer="adam").in_scope
    carried = transfer_rate(0.1, small, large, EXAMPLE, rule=other, optimizer="adam")
    assert not carried.in_scope
    assert f"use the rule '{fitting}'" in carried.notes[0]
    if power == -1:  # completep prescribes nothing for SGD
        with pytest.raises(DepthlrError, match="use the rule 'measured'"):
            transfer_rate(0.1, small, large, EXAMPLE, rule="law")
    assert transfer_rate(0.1, Net(2, 0), Net(8, 0), EXAMPLE, rule="law").rate < 0.1


def two(model: nn.Module) -> list[torch.optim.Optimizer]:
    groups = param_groups(model, 0.02, muon=True, other_rate=1e-3)
    return [
        torch.optim.Muon([group for group in groups if group["use_muon"]]),
        torch.optim.AdamW([group for group in groups if not group["use_muon"]]),
    ]


@pytest.mark.parametrize("rule", ["law", "measured"])
def test_the_rates_of_two_optimizers_keep_their_ratio(rule: str) -> None:
    batches = [(torch.randn(4, 4), torch.randn(4, 4)) for _ in range(3)]
    recipe = Recipe(Net(2, 0), batches, nn.functional.mse_loss, two)
    carried = transfer_rate(0.02, recipe, recipe.replace(build=Net(4, 0)), rule=rule)
    note = "Muon and AdamW step together: their rates change by one factor, so their ratio is kept"
    assert any(one.startswith(note) for one in carried.notes)
    assert carried.notes[-1] == f"carried rates: Muon {carried.rate:.3g}, AdamW {carried.rate / 20:.3g}."
    alone = recipe.replace(optimizer="adamw")
    one = transfer_rate(0.02, alone, alone.replace(build=Net(4, 0)), rule=rule)
    assert not any("step together" in note for note in one.notes)


def test_a_tuned_rate_keeps_the_product_with_the_decay() -> None:
    weights, rest = param_groups(Net(2, 0), 0.01, weight_decay=0.1, tuned_rate=0.04)
    assert weights["lr"] * weights["weight_decay"] == pytest.approx(0.04 * 0.1)
    assert rest["weight_decay"] == 0


def test_both_optimizers_keep_their_product_with_the_decay() -> None:
    """Muon was tuned at 0.04 and AdamW at 1e-3; both rates are carried by a quarter."""
    hidden, head = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    model = nn.ModuleDict({"hidden": hidden, "mix": nn.Conv1d(4, 4, 1, bias=False), "head": head})
    carried = {"tuned_rate": 0.04, "muon": True, "other_rate": 1e-3 / 4}
    matrices, others = param_groups(model, 0.01, weight_decay=0.1, **carried)
    assert (len(matrices["params"]), len(others["params"])) == (1, 2)
    assert matrices["lr"] * matrices["weight_decay"] == pytest.approx(0.04 * 0.1)
    assert others["lr"] * others["weight_decay"] == pytest.approx(1e-3 * 0.1)


@pytest.mark.parametrize("rule", ["depth-mup", "u-mup", "completep"])
def test_rules_for_multipliers_say_so_where_there_are_none(rule: str) -> None:
    carried = transfer_rate(0.1, Net(2, 0), Net(8, 0), EXAMPLE, rule=rule, optimizer="adam")
    assert (carried.in_scope, len(carried.notes)) == (False, 1)
    assert "multiplied by 1 in the source and by 1 in the target" in carried.notes[0]
    assert carried.notes[0].endswith("use the rule 'constant'.")


def test_the_largest_rate_of_the_optimizers_need_not_be_the_tuned_one() -> None:
    recipe = Recipe(Net(2, 0), example=EXAMPLE, optimizer=two)
    carried = transfer_rate(3e-4, recipe, recipe.replace(build=Net(8, 0)), rule="copy")
    assert "the optimizers' largest rate is 0.02, not 0.0003: multiply your own rates by the factor 1." in carried.notes
    assert carried.notes[-1] == "carried rates: Muon 0.02, AdamW 0.001."
