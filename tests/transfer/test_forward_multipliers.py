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
    "in place": lambda x, branch, c: branch(x).mul_(c).add_(x),
}


class Net(nn.Module):
    """Residual blocks whose branches are multiplied by a constant."""

    def __init__(self, blocks: int, power: float, way: str = "times") -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)) for _ in range(blocks))
        self.factor, self.add = blocks**power, WAYS[way]

    def forward(self, x: Tensor) -> Tensor:
        for branch in self.branches:
            x = self.add(x, branch, self.factor)
        return x


@pytest.mark.parametrize("way", WAYS)
def test_the_multiplier_of_the_branches_is_found(way: str) -> None:
    assert effective_depth(Net(4, -0.5, way), EXAMPLE).multiplier == pytest.approx(0.5)
    assert effective_depth(Net(4, 0, way), EXAMPLE).multiplier == 1


@pytest.mark.parametrize("power", [-0.5, -1.0])
def test_the_law_is_refused_with_a_multiplier_that_depends_on_depth(power: float) -> None:
    small, large = Net(2, power), Net(8, power)
    with pytest.raises(DepthlrError, match="would lower the rate twice: use the rule 'depth-mup'"):
        transfer_rate(0.1, small, large, EXAMPLE, rule="law")
    for rule in ("depth-mup", "completep"):
        assert transfer_rate(0.1, small, large, EXAMPLE, rule=rule, optimizer="adam").rate > 0
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
    (said,) = [one for one in carried.notes if one.startswith(note)]
    assert said.endswith(f"was not tested. Carried rates: Muon {carried.rate:.3g}, AdamW {carried.rate / 20:.3g}.")
    one = transfer_rate(0.02, recipe.replace(optimizer="adamw"), recipe.replace(build=Net(4, 0)), rule=rule)
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
