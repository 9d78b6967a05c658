"""What makes an optimizer: factories take the model, names and classes its parameters; and whose loss is measured."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, AdamW

from depthlr import DepthlrError, check_transfer, persistent_energy, suggest_rate, transfer_rate, update_energy
from depthlr.data.batches import random_batches
from depthlr.energy.step import optimizers_of
from depthlr.models.build import build

BATCHES = random_batches(torch.zeros(1, 12), (1, 3), 16, 5, seed=0)


class Net(nn.Module):
    """As users write it, with the optimizer that Lightning asks for."""

    form = "optimizer"

    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.stem = nn.Linear(12, 8)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)) for _ in range(blocks))
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x).relu()
        return self.head(x)

    def configure_optimizers(self):
        made = by_name(self)
        schedule = torch.optim.lr_scheduler.LambdaLR(made, lambda step: (step + 1) / 100)
        forms = {
            "optimizer": made,
            "list": [made],
            "pair of lists": ([made], [schedule]),
            "mapping": {"optimizer": made, "lr_scheduler": schedule},
            "mappings": [{"optimizer": made, "lr_scheduler": {"scheduler": schedule}}],
        }
        return forms[self.form]


def by_name(model: nn.Module) -> AdamW:
    """Decay and rate by the parameter's name, as Trainer.create_optimizer has them."""
    decays = [p for n, p in model.named_parameters() if n.endswith("weight") and "head" not in n]
    head = list(model.head.parameters())
    rest = [p for n, p in model.named_parameters() if not n.endswith("weight") and "head" not in n]
    groups = [{"params": decays, "weight_decay": 0.1}, {"params": rest}, {"params": head, "lr": 5e-4}]
    return AdamW(groups, lr=1e-3, weight_decay=0.0)


def net(blocks: int = 2) -> Net:
    torch.manual_seed(0)
    return Net(blocks)


def readout(model: nn.Module, optimizer) -> float:
    return update_energy(model, BATCHES, F.cross_entropy, optimizer).readout


def test_a_factory_groups_the_models_own_parameters_by_name() -> None:
    model = net()
    seen: list[nn.Module] = []

    def factory(given: nn.Module) -> AdamW:
        seen.append(given)
        return by_name(given)

    assert readout(model, factory) == readout(model, by_name(model)) != readout(model, AdamW)
    assert all(given is model for given in seen)
    held = {id(p) for one in optimizers_of(factory, model) for group in one.param_groups for p in group["params"]}
    assert held == {id(p) for p in model.parameters()}
    expected = persistent_energy(model, BATCHES, F.cross_entropy, by_name(model))
    assert persistent_energy(model, BATCHES, F.cross_entropy, factory) == expected


def test_every_measurement_takes_such_a_factory() -> None:
    options = {"batches": BATCHES, "loss_fn": F.cross_entropy, "optimizer": by_name}
    model = net()
    assert suggest_rate(model, **options) == suggest_rate(model, **options | {"optimizer": by_name(model)})
    assert transfer_rate(1e-3, net(2), net(4), **options).rate > 0
    assert transfer_rate(1e-3, net(2), net(4), rule="am-mup", **options).rate > 0
    assert transfer_rate(1e-3, net(2), net(4), BATCHES[0][0], rule="depth-mup", optimizer=by_name).factor < 1
    assert transfer_rate(1e-3, net, lambda: net(4), BATCHES[0][0], rule="depth-mup", optimizer=by_name).factor < 1
    assert len(check_transfer(Net, [1, 2], seeds=1, **options).sizes) == 2


@pytest.mark.parametrize("form", ["optimizer", "list", "pair of lists", "mapping", "mappings"])
def test_what_lightning_configures_is_measured(form: str) -> None:
    model = net()
    expected = readout(model, by_name(model))
    model.form = form
    assert readout(model, Net.configure_optimizers) == pytest.approx(expected, rel=1e-9)
    assert readout(model, model.configure_optimizers()) == pytest.approx(expected, rel=1e-9)


def test_timms_layer_decay_is_a_factory(timm_module) -> None:
    from timm.optim import param_groups_layer_decay

    torch.manual_seed(0)
    size = {"img_size": 8, "patch_size": 4, "embed_dim": 8, "depth": 2, "num_heads": 2, "num_classes": 3}
    model = timm_module.create_model("vit_tiny_patch16_224", **size)
    batches = random_batches(torch.zeros(1, 3, 8, 8), (1, 3), 8, 3, seed=0)

    def decayed(given: nn.Module) -> AdamW:
        groups = param_groups_layer_decay(given, weight_decay=0.05, layer_decay=0.75)
        return AdamW([{**group, "lr": 1e-3 * group["lr_scale"]} for group in groups])

    by_factory, by_object = (
        persistent_energy(model, batches, F.cross_entropy, given) for given in (decayed, decayed(model))
    )
    assert by_factory == by_object


def test_names_classes_and_partial_classes_take_the_parameters() -> None:
    model = net()
    named = readout(model, "sgd")
    for given in (SGD, partial(SGD, lr=0.3), lambda model: SGD(model.parameters(), lr=0.1)):
        assert readout(model, given) == pytest.approx(named, rel=1e-5)


@pytest.mark.parametrize("make", [net, lambda: nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 3))])
@pytest.mark.parametrize(
    "factory",
    [
        lambda p: SGD(p, lr=1.0),
        lambda parameters: [
            AdamW([p for p in parameters if p.dim() == 2]),
            SGD([p for p in parameters if p.dim() < 2]),
        ],
    ],
)
def test_a_factory_that_expects_parameters_is_told_what_to_write(make, factory) -> None:
    sentence = r"a factory is given the model, such as lambda model: torch\.optim\.AdamW\(model\.parameters\("
    for measure in (update_energy, persistent_energy, suggest_rate):
        with pytest.raises(DepthlrError, match=sentence):
            measure(make(), BATCHES, F.cross_entropy, factory)
    with pytest.raises(DepthlrError, match=sentence):
        transfer_rate(0.1, make(), make(), batches=BATCHES, loss_fn=F.cross_entropy, optimizer=factory)


def test_a_factory_that_fails_for_another_reason_is_told_that() -> None:
    for factory in (
        lambda model: SGD(model.parameters(), learning_rate=1.0),
        lambda model: SGD(model.body.parameters()),
    ):
        with pytest.raises(DepthlrError, match=r"could not be made for this model \((Type|Attribute)Error"):
            readout(net(), factory)


class WithLoss(nn.Module):
    """A model that computes its loss where its batch has labels, and returns a mapping."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        sizes = [12, *[8] * layers]
        hidden = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.Tanh())]
        self.net = nn.Sequential(*hidden, nn.Linear(8, 3))

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor | None]:
        logits = self.net(x)
        return {"loss": None if labels is None else F.cross_entropy(logits, labels), "logits": logits}


LABELLED = [{"x": x, "labels": y} for x, y in BATCHES]


def test_a_model_that_returns_its_loss_needs_no_other() -> None:
    torch.manual_seed(0)
    small, large = WithLoss(2), WithLoss(4)

    def own(output, batch):
        return output["loss"]

    assert update_energy(small, LABELLED) == update_energy(small, LABELLED, own)
    assert persistent_energy(small, LABELLED, optimizer="adam") == persistent_energy(small, LABELLED, own, "adam")
    assert suggest_rate(small, LABELLED) == suggest_rate(small, LABELLED, own)
    assert transfer_rate(0.1, small, large, batches=LABELLED) == transfer_rate(
        0.1, small, large, batches=LABELLED, loss_fn=own
    )
    assert f"{check_transfer(WithLoss, [1, 2], LABELLED)}" == f"{check_transfer(WithLoss, [1, 2], LABELLED, own)}"


def test_a_hugging_face_model_needs_no_loss_function() -> None:
    torch.manual_seed(0)
    model, _ = build("hf/gpt2?vocab_size=11&n_positions=6&n_embd=8&n_layer=2&n_head=2&use_cache=false")
    ids = [torch.randint(11, (4, 6)) for _ in range(4)]
    batches = [{"input_ids": one, "labels": one} for one in ids]
    found = suggest_rate(model, batches, optimizer="adamw")
    assert found == suggest_rate(model, batches, lambda output, batch: output.loss, "adamw")
    assert update_energy(model, batches[0]).loss == pytest.approx(float(model(ids[0], labels=ids[0]).loss), rel=0.3)


@pytest.mark.parametrize(
    ("model", "batches"),
    [(net(), BATCHES), (WithLoss(), BATCHES), (WithLoss(), [{"x": x} for x, _ in BATCHES])],
    ids=["a tensor", "a target beside the inputs", "no labels"],
)
def test_where_there_is_no_loss_it_is_asked_for(model, batches) -> None:
    for measure in (update_energy, suggest_rate):
        with pytest.raises(DepthlrError, match=r"must hold its loss: pass loss_fn=, or a batch with labels"):
            measure(model, batches)
    with pytest.raises(DepthlrError, match="pass loss_fn="):
        transfer_rate(0.1, model, model, batches=batches)
