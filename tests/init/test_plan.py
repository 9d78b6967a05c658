"""Initialization plans against the paper's rules written out by hand."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr.errors import DepthlrError
from depthlr.init import apply_plan, gating_factor, init_, init_plan
from depthlr.init.plan import follows_plan
from depthlr.law.carried_rate import PRE_NORM
from depthlr.models.build import build
from depthlr.trace.depth import effective_depth

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


def plan_of(model: nn.Module, example: torch.Tensor, **options) -> dict[str, tuple[str, float]]:
    return {p.name: (p.become, p.std) for p in init_plan(model, example, **options)}


@pytest.mark.parametrize(
    ("shape", "product"),
    [
        ((8, 256), lambda s, x: torch.einsum("bd,od->bo", x, s.w)),
        ((256, 2, 4), lambda s, x: torch.einsum("bd,dhk->bhk", x, s.w).flatten(1)),
        ((256, 8), lambda s, x: torch.einsum("do,bd->bo", s.w, x)),
        ((8, 256), lambda s, x: torch.tensordot(x, s.w, dims=([1], [1]))),
        ((256, 8), lambda s, x: x @ s.w),
        ((8, 256), lambda s, x: F.linear(x, s.w)),
        ((8, 256), lambda s, x: torch.inner(x, s.w)),
        ((8, 256), lambda s, x: torch.linalg.vecdot(x[:, None], s.w)),
        ((256, 8), lambda s, x: torch.linalg.multi_dot([x, s.w])),
        ((8, 256), lambda s, x: torch.linalg.multi_dot([s.w, x.t()]).t()),
        ((8, 256), lambda s, x: torch.addmv(x.new_zeros(8), s.w, x[0])[None]),
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


def test_a_model_without_memory_cannot_be_initialized() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with pytest.raises(DepthlrError, match="meta device"):
        init_(model, torch.randn(3, 4), seed=0)


@pytest.mark.parametrize(
    "norm",
    [
        lambda x: F.layer_norm(x, (4,)),
        lambda x: F.rms_norm(x, (4,)),
        lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5)[0],
    ],
    ids=["layer_norm", "rms_norm", "native_layer_norm"],
)
def test_every_token_norm_makes_a_transformer_whose_branches_are_not_scaled(norm) -> None:
    class Update(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.layer(norm(x))

    model = nn.Sequential(nn.Linear(4, 4), Update(), Update(), Update(), nn.Linear(4, 2))
    auto, unscaled, scaled = (
        init_plan(model, torch.randn(2, 4), branch_scale=scale) for scale in ("auto", "none", "last")
    )
    assert auto == unscaled != scaled
    assert effective_depth(model, torch.randn(2, 4)).norms == (PRE_NORM,)


@pytest.mark.parametrize("model", [nn.LayerNorm(4), nn.PReLU(), nn.Sequential(nn.BatchNorm1d(4), nn.ReLU())])
def test_a_model_without_a_weighted_layer_is_a_sentence(model: nn.Module) -> None:
    with pytest.raises(DepthlrError, match="no weighted layer lies between the model's input and its output"):
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


def fed_by(activation: nn.Module, **options) -> float:
    """The q that a weight behind an activation is given."""
    model = nn.Sequential(nn.Linear(8, 8), activation, nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    return 1 / (plan_of(model, torch.randn(3, 8), **options)["2.weight"][1] ** 2 * 8)


class Applied(nn.Module):
    """A function in a module that holds a parameter, so that the function itself has to be seen."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.unused = function, nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.function(x)


@torch.jit.script
def scripted_swish(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x)


def glu(x: torch.Tensor) -> torch.Tensor:
    value, gate = x.chunk(2, -1)
    return value * torch.sigmoid(gate)


@torch.jit.script
def scripted_sum(x: torch.Tensor, numbers: list[float]) -> torch.Tensor:
    return x + sum(numbers)


@torch.jit.script
def scripted_softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


@pytest.mark.parametrize(
    "activation",
    [
        nn.PReLU(),
        nn.PReLU(8, init=0.7),
        nn.Threshold(0, 0),
        nn.Hardshrink(),
        nn.Softshrink(0.3),
        nn.LogSigmoid(),
        nn.RReLU().eval(),
    ],
    ids=lambda activation: type(activation).__name__,
)
def test_a_weight_takes_the_q_of_the_module_that_feeds_it(activation: nn.Module) -> None:
    assert fed_by(activation) == pytest.approx(gating_factor(activation), rel=1e-6)


@pytest.mark.parametrize(
    ("function", "same"),
    [
        (lambda x: x.clamp(min=0), "relu"),
        (lambda x: x.clone().clamp_(0), "relu"),
        (lambda x: torch.clamp_min(x, 0), "relu"),
        (lambda x: torch.clip(x, -1, 1), "hardtanh"),
        (lambda x: F.relu(x).square(), "relu_squared"),
        (lambda x: F.relu(x) ** 2, "relu_squared"),
        (lambda x: F.relu(x).view(-1, 2, 4).flatten(1).pow(2.0), "relu_squared"),
        (lambda x: F.relu(F.relu(x)), "relu"),
        (lambda x: torch.tanh(F.gelu(x)), lambda z: torch.tanh(F.gelu(z))),
        (lambda x: F.relu(x) ** 0.5, "identity"),  # of which q does not exist
        (lambda x: x * torch.sigmoid(x), "silu"),
        (lambda x: x.sigmoid().mul(x), "silu"),
        (lambda x: x / torch.sigmoid(x), "identity"),
        (lambda x: F.relu(x) * torch.tanh(F.relu(x)), "identity"),  # two values, though equal ones
        (lambda x: glu(torch.cat([x, -x], -1)), "identity"),  # one half times the other
        (scripted_swish, "silu"),
        (lambda x: x * scripted_softmax(x), "identity"),
        (lambda x: scripted_sum(x, [1.0, 2.0]), "identity"),
        (scripted_softmax, "identity"),
    ],
)
def test_a_weight_takes_the_q_of_the_function_that_feeds_it(function, same) -> None:
    assert fed_by(Applied(function)) == pytest.approx(gating_factor(same), rel=1e-9)


def test_a_random_slope_counts_as_its_mean() -> None:
    assert fed_by(nn.RReLU(0.1, 0.3)) == pytest.approx(gating_factor(nn.LeakyReLU(0.2)))
    with pytest.raises(DepthlrError, match=r"^rrelu mixes its inputs or is random"):
        fed_by(Applied(lambda x: torch.rrelu(x, 0.1, 0.3, True)))


def test_hes_variance_knows_every_activation() -> None:
    assert fed_by(nn.PReLU(), variance="he") == pytest.approx(0.5)


def test_slopes_without_memory_are_fresh_ones() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 8), nn.PReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    expected = (gating_factor(nn.PReLU()) * 8) ** -0.5
    assert plan_of(model, torch.randn(3, 8))["2.weight"][1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("between", "channels", "q"),
    [
        (nn.PixelShuffle(2), 2, 0.5),
        (nn.PixelUnshuffle(2), 32, 0.5),
        (nn.ChannelShuffle(2), 8, 0.5),
        (nn.Upsample(scale_factor=2), 8, 0.5),
        (nn.Upsample(scale_factor=2, mode="nearest-exact"), 8, 0.5),
        (nn.Upsample(scale_factor=2, mode="bilinear"), 8, 1.0),  # it mixes pixels
        (nn.Sequential(nn.Unfold(2), nn.Unflatten(2, (7, 7))), 32, 0.5),
    ],
)
def test_an_activation_is_found_behind_what_only_moves_values(between, channels: int, q: float) -> None:
    model = nn.Sequential(
        nn.Conv2d(8, 8, 1), nn.ReLU(), between, nn.Conv2d(channels, 8, 1), nn.ReLU(), nn.Conv2d(8, 2, 1)
    )
    found = plan_of(model, torch.randn(2, 8, 8, 8))["3.weight"][1]
    assert found == pytest.approx((q * channels) ** -0.5)


def test_twenty_layers_of_prelu_keep_their_readouts_size() -> None:
    sizes = []
    for activation in (nn.PReLU, nn.ReLU):
        layers = [layer for _ in range(20) for layer in (nn.Linear(256, 256), activation())]
        model, x = nn.Sequential(*layers, nn.Linear(256, 3)), torch.randn(64, 256)
        init_(model, x, seed=0)
        sizes.append(float(model(x).detach().square().mean()))
    assert 0.2 < sizes[0] / sizes[1] < 5


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (2, 2), (4, 2), (4, 4)])
@pytest.mark.parametrize("groups", [1, 4])
def test_transposed_convolutions_keep_the_variance(kernel: int, stride: int, groups: int) -> None:
    transposed = nn.ConvTranspose2d(64, 64, kernel, stride=stride, groups=groups)
    model, x = nn.Sequential(transposed, nn.Conv2d(64, 2, 1)), torch.randn(8, 64, 16, 16)
    init_(model, x, seed=0)
    inside = transposed(x).detach()[..., kernel:-kernel, kernel:-kernel]
    assert float(inside.var()) == pytest.approx(1.0, abs=0.15)


def test_a_transposed_kernel_smaller_than_its_stride_is_still_a_layer() -> None:
    model = nn.Sequential(nn.ConvTranspose1d(1, 4, 1, stride=3), nn.Conv1d(4, 2, 1))
    assert plan_of(model, torch.randn(2, 1, 5))["0.weight"] == ("normal", pytest.approx(1.0))


def test_torchs_own_norms_become_one_also_where_they_were_zero() -> None:
    class NormAndActivation(nn.BatchNorm1d):  # as in timm
        def forward(self, x):
            return F.relu(super().forward(x))

    class OnePlusLayerNorm(nn.LayerNorm):
        def reset_parameters(self) -> None:
            nn.init.zeros_(self.weight)
            nn.init.zeros_(self.bias)

        def forward(self, x):
            return F.layer_norm(x, (4,), self.weight + 1, self.bias)

    norms = [nn.BatchNorm1d(4), nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.RMSNorm(4), NormAndActivation(4)]
    model = nn.Sequential(nn.Linear(4, 4), *norms, OnePlusLayerNorm(4), nn.Linear(4, 2))
    for norm in norms:
        nn.init.zeros_(norm.weight)
    init_(model, torch.randn(3, 4), seed=0)
    assert all(bool((norm.weight == 1).all()) for norm in norms)
    assert not model[-2].weight.any()


@pytest.mark.parametrize("table", [nn.Embedding, nn.EmbeddingBag])
def test_the_padding_row_stays_zero(table) -> None:
    model = nn.Sequential(table(10, 8, padding_idx=3), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    init_(model, torch.randint(0, 10, (2, 5)), seed=0)
    weight = model[0].weight.detach()
    assert not weight[3].any()
    assert float(weight[[0, 1, 2, *range(4, 10)]].std()) == pytest.approx(1.0, abs=0.25)


def test_a_padding_row_stays_zero_where_the_table_is_tied_to_the_head() -> None:
    model = Around(
        lambda s, x: s.head(s.table(x)), head=nn.Linear(8, 10, bias=False), table=nn.Embedding(10, 8, padding_idx=0)
    )
    model.table.weight = model.head.weight
    init_(model, torch.randint(0, 10, (2, 5)), seed=0)
    assert not model.head.weight[0].any()
    assert bool(model.head.weight[1:].all())


@pytest.mark.parametrize(
    "spec",
    [
        "mlp?layers=3&width=16",
        "cnn?layers=3&width=8",
        "resnet?blocks=4&width=8",
        "resnet?blocks=2&width=8&batch_norm=true",
        "gpt?blocks=2&width=16&heads=2",
        "vit?blocks=2&width=16&heads=2",
        "cct?blocks=2&width=16&heads=2",
    ],
)
def test_what_init_draws_follows_its_plan_and_other_weights_do_not(spec: str) -> None:
    model, example = build(spec)
    plan = init_plan(model, example)
    for seed in range(20):
        apply_plan(model, plan, torch.Generator().manual_seed(seed))
        assert follows_plan(model, plan)
    drawn = [model.get_parameter(step.name) for step in plan if step.become == "normal"]
    with torch.no_grad():
        max(drawn, key=torch.Tensor.numel).mul_(0.58)  # torch's own size of an nn.Linear that an input feeds
    assert not follows_plan(model, plan)
