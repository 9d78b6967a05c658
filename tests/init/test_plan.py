"""Initialisation plans against the paper's rules written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from depthlr.errors import DepthlrError
from depthlr.init import apply_plan, gating_factor, init_, init_plan
from depthlr.models.build import build

RELU, GELU = gating_factor("relu"), gating_factor("gelu")


def stds(spec: str, **options) -> dict[str, float]:
    model, example = build(spec)
    return {p.name: p.std for p in init_plan(model, example, **options) if p.become == "normal"}


def becomes(spec: str) -> dict[str, str]:
    model, example = build(spec)
    return {p.name: p.become for p in init_plan(model, example)}


def test_mlp_first_layer_and_head_have_q_one() -> None:
    found = stds("mlp?layers=3&width=10&inputs=20")
    assert found == pytest.approx(
        {
            "hidden.0.weight": (1 * 20) ** -0.5,
            "hidden.1.weight": (RELU * 10) ** -0.5,
            "hidden.2.weight": (RELU * 10) ** -0.5,
            "head.weight": 10**-0.5,
        }
    )


@pytest.mark.parametrize(("variance", "q"), [("gating", GELU), ("he", 0.5)])
def test_gelu_cnn_takes_its_own_q_or_hes(variance: str, q: float) -> None:
    found = stds("cnn?layers=2&width=10&activation=gelu&kernel=4", variance=variance)
    weights = [s for n, s in found.items() if "head" not in n]
    assert weights == pytest.approx([(3 * 16) ** -0.5, (q * 10 * 16) ** -0.5])


@pytest.mark.parametrize(("scale", "factor"), [("auto", 0.5), ("last", 0.5), ("each", 0.5), ("none", 1.0)])
def test_resnet_branches_are_scaled_by_one_over_root_k(scale: str, factor: float) -> None:
    found = stds("resnet?blocks=4&width=8", branch_scale=scale)
    branches = [s for n, s in found.items() if n.startswith("blocks")]
    assert branches == pytest.approx([factor * (RELU * 8 * 9) ** -0.5] * 4)
    assert found["plain.0.weight"] == pytest.approx((3 * 9) ** -0.5)
    assert found["head.weight"] == pytest.approx(8**-0.5)


def test_two_layer_branches_are_scaled_once_on_the_last_weight_unless_each_is_asked() -> None:
    once = [s for n, s in stds("resnet?blocks=4&width=8&branch_layers=2").items() if n.startswith("blocks")]
    each = stds("resnet?blocks=4&width=8&branch_layers=2", branch_scale="each")
    he = (RELU * 72) ** -0.5
    assert once == pytest.approx([he, he / 2] * 4)
    assert [s for n, s in each.items() if n.startswith("blocks")] == pytest.approx([he / 2] * 8)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformers_take_plain_fan_in(norm: str) -> None:
    found = stds(f"vit?blocks=2&width=12&heads=2&norm={norm}")
    for block in ("blocks.0", "blocks.1"):
        assert found[f"{block}.attention.qkv.weight"] == pytest.approx(12**-0.5)
        assert found[f"{block}.attention.project.weight"] == pytest.approx(12**-0.5)
        assert found[f"{block}.feed_forward.0.weight"] == pytest.approx(12**-0.5)
        assert found[f"{block}.feed_forward.2.weight"] == pytest.approx((RELU * 48) ** -0.5)
    assert found["embedding.project.weight"] == pytest.approx((3 * 16) ** -0.5)
    assert found["head.weight"] == pytest.approx(12**-0.5)


def test_norms_biases_positions_and_tokens() -> None:
    found = becomes("vit?blocks=1&width=12&heads=2")
    assert found["class_token"] == found["positions"] == "token"
    assert found["blocks.0.norm1.weight"] == "ones"
    assert found["blocks.0.norm1.bias"] == "zeros"
    assert found["head.bias"] == "zeros"
    assert set(becomes("beit?blocks=1&width=12&heads=2").values()) <= {"normal", "token", "ones", "zeros"}
    batch_normed = becomes("resnet?blocks=1&width=4&batch_norm=true")
    assert "ones" in batch_normed.values()
    assert "kept" not in batch_normed.values()


@pytest.mark.parametrize("tied", [True, False])
def test_embeddings_have_unit_variance_unless_tied_to_the_head(tied: bool) -> None:
    found = stds(f"gpt?blocks=1&width=16&heads=2&tied={str(tied).lower()}")
    (embedding,) = [s for n, s in found.items() if "token" in n or "embed" in n]
    assert embedding == pytest.approx(16**-0.5 if tied else 1.0)


def test_traced_models_hugging_face_and_timm(timm_module: object) -> None:
    found = stds("hf/gpt2?n_layer=1&n_embd=16&n_head=2")
    assert found["transformer.h.0.attn.c_attn.weight"] == pytest.approx(16**-0.5)  # stored as (in, out)
    written_out = (gating_factor("gelu_tanh") * 64) ** -0.5  # its GELU is a product of elementary functions
    assert found["transformer.h.0.mlp.c_proj.weight"] == pytest.approx(written_out)
    resnet = stds("timm/resnet18")
    assert resnet["layer1.0.conv2.weight"] == pytest.approx((RELU * 64 * 9 * 8) ** -0.5)
    assert resnet["layer1.0.conv1.weight"] == pytest.approx((RELU * 64 * 9) ** -0.5)
    assert resnet["layer2.0.downsample.0.weight"] == pytest.approx((RELU * 64) ** -0.5)
    assert resnet["fc.weight"] == pytest.approx(512**-0.5)


def test_layer_scale_and_other_multipliers_are_kept() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)
            self.gamma = nn.Parameter(torch.full((1, 4), 1e-4))

        def forward(self, x):
            return self.b(x + self.gamma * self.a(F.relu(x)))

    model = Scaled()
    init_(model, torch.randn(3, 4), seed=0)
    assert torch.equal(model.gamma, torch.full((1, 4), 1e-4))


def test_weights_have_the_planned_deviation_and_a_seed_repeats_them() -> None:
    model, example = build("mlp?layers=2&width=400&inputs=300")
    init_(model, example, seed=3)
    first = model.hidden[1].weight.clone()
    assert float(first.detach().std()) == pytest.approx((RELU * 400) ** -0.5, rel=0.02)
    init_(model, example, seed=4)
    assert not torch.equal(first, model.hidden[1].weight)
    apply_plan(model, init_plan(model, example), torch.Generator().manual_seed(3))
    assert torch.equal(first, model.hidden[1].weight)


@pytest.mark.parametrize("activation", ["relu", "gelu", "tanh"])
def test_gradients_keep_their_size_through_a_deep_plain_stack(activation: str) -> None:
    model, _ = build(f"mlp?layers=30&width=300&inputs=300&activation={activation}")
    x = torch.randn(64, 300)
    init_(model, x, seed=0)
    states = []
    for layer in model.hidden:
        layer.register_forward_hook(lambda m, a, out: (out.retain_grad(), states.append(out))[1] and None)
    model(x).square().mean().backward()
    sizes = [float(s.grad.square().mean()) for s in states]
    if activation == "relu":  # homogeneous: q does not drift with the scale of z
        assert 0.3 < sizes[0] / sizes[-1] < 3
    assert all(math.isfinite(s) and s > 0 for s in sizes)


def test_residual_stacks_keep_their_size_with_the_scale_and_explode_without() -> None:
    sizes = {}
    for scale in ("auto", "none"):
        model, example = build("resnet?blocks=24&width=32")
        init_(model, example, seed=0, branch_scale=scale)
        stream = []
        model.last_activation.register_forward_pre_hook(lambda m, a, kept=stream: kept.append(a[0]))
        model(torch.randn(4, 3, 8, 8))
        sizes[scale] = float(stream[0].detach().square().mean())
    assert 0.5 < sizes["auto"] < 2 * math.e
    assert sizes["none"] > 1e4


class Around(nn.Module):
    def __init__(self, function, **parts) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x):
        return self.function(self, x)


def plan_of(model: nn.Module, example: torch.Tensor) -> dict[str, tuple[str, float]]:
    return {p.name: (p.become, p.std) for p in init_plan(model, example)}


@pytest.mark.parametrize(
    ("shape", "product"),
    [
        ((8, 256), lambda s, x: torch.einsum("bd,od->bo", x, s.w)),
        ((256, 2, 4), lambda s, x: torch.einsum("bd,dhk->bhk", x, s.w).flatten(1)),
        ((256, 8), lambda s, x: torch.einsum("do,bd->bo", s.w, x)),
        ((8, 256), lambda s, x: torch.tensordot(x, s.w, dims=([1], [1]))),
        ((256, 8), lambda s, x: x @ s.w),
        ((8, 256), lambda s, x: F.linear(x, s.w)),
    ],
)
def test_fan_in_is_what_the_product_contracts(shape, product) -> None:
    model = Around(lambda s, x: s.head(product(s, x)), w=nn.Parameter(torch.randn(shape)), head=nn.Linear(8, 2))
    assert plan_of(model, torch.randn(3, 256))["w"] == ("normal", pytest.approx(256**-0.5))


def test_weights_made_of_several_parameters_are_kept() -> None:
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
    model = nn.Sequential(normed, nn.Linear(4, 2))
    found = plan_of(model, torch.randn(3, 4))
    assert {v[0] for n, v in found.items() if "original" in n} == {"kept"}
    lora = Around(
        lambda s, x: s.head(F.linear(x, s.w + s.b @ s.a)),
        w=nn.Parameter(torch.randn(4, 4)),
        a=nn.Parameter(torch.randn(1, 4)),
        b=nn.Parameter(torch.zeros(4, 1)),
        head=nn.Linear(4, 2),
    )
    assert plan_of(lora, torch.randn(3, 4))["b"] == ("kept", 0.0)


def test_norms_of_any_naming_become_one_and_zero() -> None:
    class AnnotatedNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a_2, self.b_2 = nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))

        def forward(self, x):
            return self.a_2 * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5) + self.b_2

    class OnePlusNorm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4))

        def forward(self, x):
            return F.layer_norm(x, (4,)) * (1 + self.weight)

    class NormedLinear(nn.Linear):
        def forward(self, x):
            return super().forward(F.normalize(x, dim=-1))

    model = nn.Sequential(nn.Linear(4, 4), AnnotatedNorm(), OnePlusNorm(), NormedLinear(4, 4), nn.Linear(4, 2))
    found = plan_of(model, torch.randn(3, 4))
    assert [found[n][0] for n in ("1.a_2", "1.b_2", "2.weight")] == ["ones", "zeros", "zeros"]
    assert found["3.weight"] == ("normal", pytest.approx(0.5))


def test_grouped_transposed_convolutions_and_attention_with_its_own_key_width() -> None:
    model = nn.Sequential(nn.ConvTranspose2d(8, 8, 3, groups=8), nn.Conv2d(8, 2, 1))
    assert plan_of(model, torch.randn(2, 8, 4, 4))["0.weight"] == ("normal", pytest.approx(1 / 3))
    attention = Around(
        lambda s, x: s.head(s.m(x[..., :16], x, x[..., :16])[0]),
        m=nn.MultiheadAttention(16, 2, kdim=64, batch_first=True),
        head=nn.Linear(16, 2),
    )
    found = plan_of(attention, torch.randn(2, 3, 64))
    assert found["m.k_proj_weight"] == ("normal", pytest.approx(64**-0.5))
    assert found["m.q_proj_weight"] == ("normal", pytest.approx(16**-0.5))


def test_a_model_without_memory_cannot_be_initialised() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with pytest.raises(DepthlrError, match="meta device"):
        init_(model, torch.randn(3, 4), seed=0)


def test_bad_options_are_refused() -> None:
    model, example = build("mlp?layers=1&width=4&inputs=4")
    with pytest.raises(DepthlrError, match="gating"):
        init_(model, example, variance="xavier")
    with pytest.raises(DepthlrError, match="branch_scale"):
        init_(model, example, branch_scale="all")


def test_a_routers_branch_ends_with_its_experts_not_with_its_gate() -> None:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.router = nn.Linear(8, 2)
            self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            share = self.router(x).softmax(-1)
            return x + sum(share[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))

    model = nn.Sequential(nn.Linear(4, 8), *(Mixture() for _ in range(4)), nn.Linear(8, 2))
    found = {one.name: one.std for one in init_plan(model, torch.randn(3, 4))}
    assert found["1.router.weight"] == pytest.approx(8**-0.5)
    assert found["1.experts.0.0.weight"] == pytest.approx(8**-0.5)
    assert found["1.experts.1.2.weight"] == pytest.approx((2 / 8 / 4) ** 0.5), "fan-in by ReLU's q, K^(-1/2)"
