"""Parameter groups: who decays, and that absolute rates survive schedulers and checkpoints."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

from depthlr import DepthlrError, effective_depth, param_groups, suggest_rate, transfer_rate, update_energy
from depthlr.models.mlp import MLP
from depthlr.models.transformer import GPT
from depthlr.models.vit import ViT


class Small(nn.Module):
    """One of everything: embedding, position, norm, matrix, convolution, tied head, frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(5, 4)
        self.pos_embed = nn.Parameter(torch.zeros(1, 3, 4))
        self.norm = nn.LayerNorm(4)
        self.mix = nn.Conv1d(4, 4, 1)
        self.hidden = nn.Linear(4, 4)
        self.frozen = nn.Linear(4, 4).requires_grad_(False)
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.norm(self.embed(ids) + self.pos_embed)
        x = self.hidden(self.mix(x.mT).mT)
        return self.head(self.frozen(x))


def names(model: nn.Module, group: dict) -> set[str]:
    ids = {id(p) for p in group["params"]}
    return {n for n, p in model.named_parameters() if id(p) in ids}


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    ids = torch.tensor([[0, 1, 2], [3, 4, 0]])
    for _ in range(steps):
        optimizer.zero_grad()
        model(ids).square().mean().backward()
        optimizer.step()


def test_weights_decay_and_the_rest_does_not() -> None:
    model = Small()
    decaying, rest = param_groups(model, 1e-3, weight_decay=0.1)
    assert (decaying["lr"], decaying["weight_decay"]) == (1e-3, 0.1)
    assert (rest["lr"], rest["weight_decay"]) == (1e-3, 0.0)
    assert names(model, decaying) == {"mix.weight", "hidden.weight"}
    assert names(model, rest) == {
        *("embed.weight", "pos_embed", "norm.weight", "norm.bias"),
        *("mix.bias", "hidden.bias"),
    }


@pytest.mark.parametrize("model", [Small(), GPT(blocks=1, width=8, heads=2, vocabulary=7, context=4), MLP(layers=2)])
def test_every_trainable_parameter_appears_once(model: nn.Module) -> None:
    for options in ({}, {"muon": True, "other_rate": 1e-4}):
        found = [id(p) for group in param_groups(model, 1e-3, **options) for p in group["params"]]
        assert len(found) == len(set(found))
        assert set(found) == {id(p) for p in model.parameters() if p.requires_grad}


def test_positions_and_class_tokens_of_a_vit_do_not_decay() -> None:
    model = ViT(blocks=1, width=8, heads=2, inputs=1, size=4, patch=2, classes=3)
    decaying, rest = param_groups(model, 1e-3, weight_decay=0.1)
    held = {n for n, p in model.named_parameters() if p.dim() > 1 and not n.endswith("weight")}
    assert held
    assert held <= names(model, rest)
    assert all(p.dim() > 1 for p in decaying["params"])


@pytest.fixture
def process_group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm], ids=["old", "new"])
def test_the_lengths_of_weight_norm_do_not_decay_and_a_head_of_one_output_does(norm) -> None:
    model = nn.Sequential(norm(nn.Linear(4, 6)), nn.ReLU(), nn.Linear(6, 1))
    decaying = next(group for group in param_groups(model, 0.1, weight_decay=0.01) if group["weight_decay"])
    shapes = sorted(tuple(parameter.shape) for parameter in decaying["params"])
    assert shapes == [(1, 6), (6, 4)]


def test_wrappers_do_not_change_the_groups(process_group) -> None:
    model = Small()
    plain = param_groups(model, 1e-3, weight_decay=0.1)
    for wrapped in (torch.compile(model), nn.DataParallel(model), nn.parallel.DistributedDataParallel(model)):
        groups = param_groups(wrapped, 1e-3, weight_decay=0.1)
        assert [list(map(id, g["params"])) for g in groups] == [list(map(id, g["params"])) for g in plain]


def test_muon_takes_matrices_and_adamw_the_rest_at_a_second_rate() -> None:
    model = Small()
    groups = param_groups(model, 2e-2, weight_decay=0.1, muon=True, other_rate=3e-4)
    assert [(g["use_muon"], g["lr"], g["weight_decay"]) for g in groups] == [
        (True, 2e-2, 0.1),
        (False, 3e-4, 0.1),
        (False, 3e-4, 0.0),
    ]
    assert names(model, groups[0]) == {"hidden.weight"}
    before = [p.clone() for p in model.parameters()]
    for optimizer in (torch.optim.Muon(groups[:1]), torch.optim.AdamW(groups[1:])):
        train(model, optimizer, 1)
    assert all(torch.equal(p, b) is not p.requires_grad for p, b in zip(model.parameters(), before, strict=True))


def test_the_head_is_adamws_and_decays() -> None:
    model = GPT(blocks=1, width=8, heads=2, vocabulary=7, context=4)
    matrices, others, rest = param_groups(model, 2e-2, weight_decay=0.1, muon=True, other_rate=3e-4)
    assert names(model, others) == {"head.weight"}
    assert (others["use_muon"], others["lr"], others["weight_decay"]) == (False, 3e-4, 0.1)
    assert all(name.startswith("blocks") for name in names(model, matrices))
    assert "tokens.weight" in names(model, rest)


@pytest.mark.parametrize(
    ("scheduler", "after"),
    [
        (lambda o: LambdaLR(o, lambda step: 1 / (1 + step)), 1 / 5),
        (lambda o: CosineAnnealingLR(o, T_max=8), (1 + math.cos(math.pi / 2)) / 2),
    ],
)
def test_absolute_rates_survive_schedulers_and_checkpoints(scheduler, after: float, tmp_path) -> None:
    model = Small()
    groups = param_groups(model, 2e-2, weight_decay=0.1, muon=True, other_rate=3e-4)
    given = [group["lr"] for group in groups]
    optimizer = torch.optim.AdamW(groups)
    schedule = scheduler(optimizer)
    for _ in range(4):
        train(model, optimizer, 1)
        schedule.step()
    rates = [g["lr"] for g in optimizer.param_groups]
    assert rates == pytest.approx([after * lr for lr in given])
    torch.save({"optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}, tmp_path / "checkpoint")

    again = torch.optim.AdamW(param_groups(model, 1.0, muon=True, other_rate=1.0))
    resumed = scheduler(again)
    saved = torch.load(tmp_path / "checkpoint")
    again.load_state_dict(saved["optimizer"])
    resumed.load_state_dict(saved["schedule"])
    assert [g["lr"] for g in again.param_groups] == rates
    assert [g["weight_decay"] for g in again.param_groups] == [0.1, 0.1, 0.0]
    schedule.step()
    resumed.step()
    assert [g["lr"] for g in again.param_groups] == pytest.approx([g["lr"] for g in optimizer.param_groups])


def test_rates_are_the_same_under_torch_compile(tmp_path) -> None:
    """A compiled model trains at the given rates, and its checkpoint goes on without the compiler."""
    model = Small()
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.AdamW(param_groups(compiled, 2e-2, weight_decay=0.1, muon=True, other_rate=3e-4))
    schedule = LambdaLR(optimizer, lambda step: 1 / (1 + step))
    for _ in range(2):
        train(compiled, optimizer, 1)
        schedule.step()
    rates = [group["lr"] for group in optimizer.param_groups]
    assert rates == pytest.approx([2e-2 / 3, 1e-4, 1e-4])
    torch.save(optimizer.state_dict(), tmp_path / "checkpoint")
    plain = torch.optim.AdamW(param_groups(model, 1.0, muon=True, other_rate=1.0))
    plain.load_state_dict(torch.load(tmp_path / "checkpoint"))
    assert [group["lr"] for group in plain.param_groups] == rates


def test_a_sharded_model_has_the_groups_and_the_depth_of_the_whole_one(process_group) -> None:
    """FSDP2 on the CPU. Energies need whole weights, and say so."""
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    whole, sharded = MLP(layers=3, width=4, inputs=4, classes=2), MLP(layers=3, width=4, inputs=4, classes=2)
    fully_shard(sharded, mesh=mesh)
    expected, groups = param_groups(whole, 1e-2, weight_decay=0.1), param_groups(sharded, 1e-2, weight_decay=0.1)
    assert [names(sharded, group) for group in groups] == [names(whole, group) for group in expected]
    batch = (torch.ones(2, 4), torch.tensor([0, 1]))
    assert effective_depth(sharded, batch[0]).total == effective_depth(whole, batch[0]).total
    optimizer = torch.optim.AdamW(groups)
    nn.functional.cross_entropy(sharded(batch[0]), batch[1]).backward()
    optimizer.step()
    assert [group["lr"] for group in optimizer.param_groups] == [1e-2, 1e-2]
    with pytest.raises(DepthlrError, match="needs whole weights: measure before wrapping the model in FSDP"):
        update_energy(sharded, batch, nn.functional.cross_entropy, "adamw")


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_any_torch_optimizer_takes_them(make) -> None:
    model = Small()
    optimizer = make(param_groups(model, 1e-2, weight_decay=0.1))
    train(model, optimizer, 1)
    assert [g["lr"] for g in optimizer.param_groups] == [1e-2, 1e-2]


def test_carried_and_suggested_rates_are_rates() -> None:
    model = MLP(layers=2, width=4, inputs=4, classes=2)
    carried = transfer_rate(1e-2, 4, 8)
    batch = (torch.ones(2, 4), torch.tensor([0, 1]))
    suggested = suggest_rate(model, [batch] * 3, nn.functional.cross_entropy)
    for found in (carried, suggested):
        assert {g["lr"] for g in param_groups(model, found)} == {found.rate}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: param_groups(nn.ReLU(), 1e-3), "no parameters"),
        (lambda: param_groups(nn.Linear(2, 2).requires_grad_(False), 1e-3), "frozen"),
        (lambda: param_groups(nn.LazyLinear(2), 1e-3), "lazy"),
        (lambda: param_groups("model", 1e-3), "torch.nn.Module"),
        (lambda: param_groups(Small(), -1.0), "The rate is -1.0: give a finite number above 0"),
        (
            lambda: param_groups(Small(), 1e-3, weight_decay=-1),
            "weight decay is -1: give a finite number",
        ),
        (lambda: param_groups(Small(), 1e-3, muon=True), "needs other_rate="),
        (lambda: param_groups(Small(), 1e-3, other_rate=1e-4), "is for muon=True"),
        (lambda: param_groups(Small(), 1e-3, muon=True, other_rate=0), "other rate is 0: give a finite number above 0"),
    ],
)
def test_bad_input_gets_one_sentence(call, message: str) -> None:
    with pytest.raises(DepthlrError, match=message):
        call()
