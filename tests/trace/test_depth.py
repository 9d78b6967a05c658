"""What effective depth does with odd models: outputs, wrappers, overrides, scope, bad input."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr.errors import DepthlrError
from depthlr.trace import effective_depth


class Update(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, z: Tensor) -> Tensor:
        return z + self.outer(F.relu(self.inner(z)))


def residual(blocks: int = 3, width: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, width), *(Update(width) for _ in range(blocks)), nn.Linear(width, 2))


EXAMPLE = torch.randn(5, 4)


def module(forward, **parts: nn.Module) -> nn.Module:
    class Local(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

    Local.forward = forward
    return Local()


def test_units_have_kind_role_and_path() -> None:
    units = effective_depth(residual(2), EXAMPLE).units
    assert [u.kind for u in units] == ["plain", "residual", "residual", "plain"]
    assert [u.role for u in units] == ["stem", "body", "body", "head"]
    assert [u.path for u in units] == ["0", "1", "2", "3"]
    assert [u.branch for u in units] == ["0", "1.outer", "2.outer", "3"]
    assert [u.width for u in units] == [8, 8, 8, 2]


@dataclass
class Output:
    loss: Tensor | None
    logits: Tensor


@pytest.mark.parametrize(
    "wrap",
    [
        lambda t: {"loss": t.sum(), "logits": t},
        lambda t: (t, [t]),
        lambda t: Output(None, t),
        lambda t: t.to(torch.complex64),
    ],
)
def test_outputs_of_any_shape(wrap) -> None:
    trunk = residual()
    model = module(lambda self, x: wrap(self.trunk(x)), trunk=trunk)
    assert effective_depth(model, EXAMPLE).total == 5


def test_keyword_and_positional_examples() -> None:
    model = module(lambda self, left, right: self.a(left) + self.b(right), a=nn.Linear(4, 3), b=nn.Linear(2, 3))
    left, right = torch.randn(5, 4), torch.randn(5, 2)
    assert effective_depth(model, (left, right)).total == 1
    assert effective_depth(model, {"right": right, "left": left}).total == 1


def test_parallel_branches_are_one_plain_layer_and_a_projected_skip_is_one_update() -> None:
    parallel = module(lambda s, x: s.a(x) + s.b(x), a=nn.Linear(4, 3), b=nn.Linear(4, 3))
    assert [u.kind for u in effective_depth(parallel, EXAMPLE).units] == ["plain"]
    projected = module(
        lambda s, x: s.c(F.relu(s.b(x))) + s.a(x), a=nn.Linear(4, 3), b=nn.Linear(4, 3), c=nn.Linear(3, 3)
    )
    assert [u.kind for u in effective_depth(projected, EXAMPLE).units] == ["residual"]


def test_additions_without_weights_between_are_no_units() -> None:
    def forward(self, x):
        z = self.a(x)
        z = z * 0.5 + z.flip(-1) * 0.5  # as rotary embeddings do
        z = z + torch.sigmoid(z)
        return self.b(z - z.mean(-1, keepdim=True))

    model = module(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 2))
    assert effective_depth(model, EXAMPLE).total == 2


def test_a_mask_made_from_token_ids_is_not_a_branch() -> None:
    def forward(self, ids):
        z = self.embed(ids)
        mask = (ids != 0).float()[:, :, None]
        for layer in (self.a, self.b):
            z = z + (layer(z) + (1 - mask) * -1e4)
        return self.head(z)

    parts = {"embed": nn.Embedding(10, 4), "a": nn.Linear(4, 4), "b": nn.Linear(4, 4), "head": nn.Linear(4, 10)}
    assert effective_depth(module(forward, **parts), torch.randint(0, 10, (2, 3))).total == 4


def test_conditioning_that_joins_a_branch_does_not_shorten_the_path() -> None:
    def forward(self, x, condition):
        z = self.stem(x)
        shift = self.condition(condition)
        for layer in (self.a, self.b, self.c):
            z = z + layer(F.relu(z + shift))
        return self.head(z)

    parts = {n: nn.Linear(4, 4) for n in ("stem", "condition", "a", "b", "c", "head")}
    assert effective_depth(module(forward, **parts), (EXAMPLE, EXAMPLE)).total == 5


def test_in_place_updates_count_like_others() -> None:
    def forward(self, x):
        z = self.stem(x)
        for layer in (self.a, self.b):
            branch = layer(F.relu(z))
            branch += z
            z = F.relu(branch, inplace=True)
        z[:, 0] = z[:, 1]
        return self.head(z)

    parts = {n: nn.Linear(4, 4) for n in ("stem", "a", "b", "head")}
    assert effective_depth(module(forward, **parts), EXAMPLE).total == 4


def test_weights_behind_views_products_and_one_hot() -> None:
    class Raw(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(3, 6))
            self.c = nn.Parameter(torch.randn(3))

        def forward(self, x: Tensor) -> Tensor:
            x = torch.einsum("bi,ij->bj", x, self.a)
            x = x @ self.b.t()
            return torch.matmul(x, self.c)

    assert effective_depth(Raw(), EXAMPLE).total == 3
    one_hot = module(lambda s, ids: s.b(s.a(F.one_hot(ids, 8).float())), a=nn.Linear(8, 4), b=nn.Linear(4, 2))
    assert effective_depth(one_hot, torch.randint(0, 8, (3,))).total == 2


def test_data_dependent_control_flow_is_run_for_real() -> None:
    def forward(self, x):
        return self.b(self.a(x)) if x.sum() > 0 else self.a(x)

    model = module(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    assert effective_depth(model, torch.ones(2, 4)).total == 2
    assert effective_depth(model, -torch.ones(2, 4)).total == 1


def test_kernels_that_modes_cannot_see_are_joined_at_module_borders() -> None:
    class Hidden(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C.DisableTorchFunction():
                return x * 2

    hidden = module(lambda s, x: Hidden.apply(x))
    model = nn.Sequential(nn.Linear(4, 4), hidden, nn.Linear(4, 2))
    assert effective_depth(model, EXAMPLE).total == 2


def test_compiled_and_data_parallel_wrappers_are_unwrapped() -> None:
    model = residual()
    inner = residual()
    inner[1] = torch.compile(inner[1])
    for wrapped in (torch.compile(model), nn.DataParallel(model), torch.compile(nn.DataParallel(model)), inner):
        depth = effective_depth(wrapped, EXAMPLE)
        assert depth.total == 5
        assert [u.path for u in depth.units] == ["0", "1", "2", "3", "4"]


@pytest.fixture
def process_group(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_distributed_wrappers_are_seen_through(process_group) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    assert effective_depth(nn.parallel.DistributedDataParallel(residual()), EXAMPLE).total == 5
    flat = FullyShardedDataParallel(
        residual(), auto_wrap_policy=ModuleWrapPolicy({Update}), device_id=torch.device("cpu")
    )
    depth = effective_depth(flat, EXAMPLE)
    assert depth.total == 5
    assert [u.path for u in depth.units] == ["0", "1", "2", "3", "4"]
    sharded = residual()
    for block in sharded[1:-1]:
        fully_shard(block, mesh=torch.distributed.device_mesh.init_device_mesh("cpu", (1,)))
    assert effective_depth(sharded, EXAMPLE).total == 5


def test_units_can_be_given_by_class_or_by_number() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(Update(8), Update(8)), nn.Linear(8, 2))
    assert effective_depth(model, EXAMPLE).total == 4
    by_class = effective_depth(residual(), EXAMPLE, units=[Update])
    assert (by_class.total, by_class.residual) == (5, 3)
    dense = module(
        lambda s, x: s.head(torch.cat([s.a(x), s.b(torch.cat([x, s.a(x)], 1))], 1)),
        a=nn.Linear(4, 4),
        b=nn.Linear(8, 4),
        head=nn.Linear(8, 2),
    )
    assert effective_depth(dense, EXAMPLE).total == 2
    assert effective_depth(dense, EXAMPLE, units=7).total == 7
    assert effective_depth(nn.LSTM(4, 8), torch.randn(5, 2, 4), units=[nn.LSTM]).total == 1
    with pytest.raises(DepthlrError, match="no module of such a class ran"):
        effective_depth(residual(), EXAMPLE, units=[nn.Conv2d])
    with pytest.raises(DepthlrError, match="at least 1"):
        effective_depth(residual(), EXAMPLE, units=0)


def flags_of(model: nn.Module, example=EXAMPLE) -> str:
    return " ".join(effective_depth(model, example).flags)


def test_structures_outside_the_law_are_flagged() -> None:
    assert flags_of(residual()) == ""
    dense = module(lambda s, x: s.b(torch.cat([x, s.a(x)], 1)), a=nn.Linear(4, 4), b=nn.Linear(8, 2))
    assert "concatenative skip" in flags_of(dense)
    trunk = module(
        lambda s, x: s.head(x + s.last(s.trunk(x))),
        trunk=residual(4, 4)[1:-1],
        last=nn.Linear(4, 4),
        head=nn.Linear(4, 2),
    )
    assert "passes over 4 layers or updates" in flags_of(trunk)

    def loop(self, x):
        for _ in range(3):
            x = torch.tanh(self.cell(x))
        return self.head(x)

    assert "recurrence: cell.weight is applied 3 times" in flags_of(
        module(loop, cell=nn.Linear(4, 4), head=nn.Linear(4, 2))
    )
    siamese = module(lambda s, x, y: s.h(s.a(x) * s.a(y)), a=nn.Linear(4, 4), h=nn.Linear(4, 2))
    assert "weight sharing: a.weight is used 2 times" in flags_of(siamese, (EXAMPLE, EXAMPLE))


def test_other_inputs_that_join_the_signal_are_no_short_cut() -> None:
    def stack(joined):
        def forward(self, x, other):
            for layer in self.layers:
                x = joined(layer(x), other)
            return self.head(x)

        return module(forward, layers=nn.ModuleList(nn.Linear(4, 4) for _ in range(6)), head=nn.Linear(4, 2))

    graph, mask = torch.randn(5, 5), torch.ones(5, 4)
    assert effective_depth(stack(lambda z, a: torch.relu(a @ z)), (EXAMPLE, graph)).total == 7
    assert effective_depth(stack(lambda z, m: z * m), (EXAMPLE, mask)).total == 7

    def conditioned(self, x, c):
        z = self.stem(x)
        c = self.condition(c)
        for block in self.blocks:
            z = z + block(z * (1 + c))
        return self.head(z * (1 + self.scale(c)) + self.shift(c))

    parts = {n: nn.Linear(4, 4) for n in ("stem", "condition", "scale", "shift", "head")}
    dit = module(conditioned, blocks=nn.ModuleList(nn.Linear(4, 4) for _ in range(6)), **parts)
    assert effective_depth(dit, (EXAMPLE, EXAMPLE)).total == 8


def test_updates_written_otherwise_count_too() -> None:
    def forward(self, x):
        for layer in (self.a, self.b):
            x = torch.lerp(x, layer(x), 0.5)
        return self.head(x)

    model = module(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4), head=nn.Linear(4, 2))
    assert effective_depth(model, EXAMPLE).residual == 2


def test_a_skip_around_a_plain_trunk_is_flagged_and_a_concatenation_inside_a_branch_is_not() -> None:
    trunk = nn.Sequential(*(nn.Linear(4, 4) for _ in range(9)))
    assert "passes over 9 layers" in flags_of(module(lambda s, x: s.head(x - s.t(x)), t=trunk, head=nn.Linear(4, 2)))
    inside = module(
        lambda s, x: s.head(x + s.b(torch.cat([x, s.a(x)], 1))),
        a=nn.Linear(4, 4),
        b=nn.Linear(8, 4),
        head=nn.Linear(4, 2),
    )
    assert flags_of(inside) == ""


class Caching(nn.Module):
    """Fills a cache, replaces a buffer and counts its calls, as real models do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
        self.cache, self.calls, self.seen = None, 0, {}
        self.register_buffer("queue", torch.zeros(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        if self.cache is None:
            self.cache = torch.ones(4)
        self.calls += 1
        self.seen["x"] = x
        self.queue = torch.cat([self.queue, x])
        return self.head(self.layer(x) * self.cache)


def test_what_a_forward_pass_writes_into_its_modules_is_undone() -> None:
    from depthlr.energy import update_energy

    model = Caching()
    queue = model.queue
    effective_depth(model, EXAMPLE)
    update_energy(model, (EXAMPLE, torch.zeros(5, dtype=torch.int64)), F.cross_entropy)
    assert model.cache is None
    assert (model.calls, model.seen) == (0, {})
    assert model.queue is queue
    assert type(model(EXAMPLE)) is Tensor


def test_class_names_with_norm_in_them_do_not_move_a_units_state() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return x + torch.tanh(self.layer(F.layer_norm(x, (4,))))

    class PreNormBlock(Block):
        pass

    for kind in (Block, PreNormBlock):
        model = nn.Sequential(nn.Linear(4, 4), kind(), kind(), nn.Linear(4, 2))
        assert all(u.state == u.node for u in effective_depth(model, EXAMPLE).units)


def test_units_must_be_classes_or_a_number() -> None:
    for bad in (Update, "Update", True, [3]):
        with pytest.raises(DepthlrError, match=r"list of module classes|whole number"):
            effective_depth(residual(), EXAMPLE, units=bad)


def state_of(model: nn.Module) -> dict[str, Tensor]:
    return {n: t.detach().clone() for n, t in model.state_dict().items()}


@pytest.mark.parametrize(
    ("model", "example", "message"),
    [
        (nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), torch.randn(2, 5), "could not run on the example"),
        (nn.ReLU(), EXAMPLE, "no parameters"),
        (nn.LSTM(4, 8), torch.randn(5, 2, 4), "recurrent"),
        (nn.GRU(4, 8), torch.randn(5, 2, 4), "recurrent"),
        (nn.LayerNorm(4), EXAMPLE, "no weighted layer"),
        (nn.LazyLinear(3), EXAMPLE, "lazy"),
        (module(lambda s, x: torch.ones(2, 3), a=nn.Linear(4, 4)), EXAMPLE, "does not depend on the example"),
        (module(lambda s, x: s.a(x).argmax(-1), a=nn.Linear(4, 4)), EXAMPLE, "without a floating-point tensor"),
    ],
)
def test_bad_models_get_one_sentence_and_stay_as_they_were(model: nn.Module, example: Tensor, message: str) -> None:
    before = None if isinstance(model, nn.LazyLinear) else state_of(model)
    with pytest.raises(DepthlrError, match=message):
        effective_depth(model, example)
    if before is not None:
        assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())


def test_counting_leaves_model_gradients_buffers_and_random_state_alone() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    model(EXAMPLE).sum().backward()
    looking = module(lambda s, x: s.inner(x) if x.sum() > -1e9 else x, inner=model)  # forces a real run
    before, gradient, state = state_of(model), model[0].weight.grad.clone(), torch.get_rng_state()
    for tried in (model, looking):
        effective_depth(tried, EXAMPLE)
        assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
        assert torch.equal(model[0].weight.grad, gradient)
        assert torch.equal(torch.get_rng_state(), state)
        assert model.training


def test_depth_prints_as_a_table() -> None:
    text = str(effective_depth(residual(1), EXAMPLE))
    assert text.splitlines()[0] == "effective depth 3 (backbone 1; 2 plain, 1 residual)"
    assert "1.outer" in text


def test_logits_are_the_readout_wherever_they_stand() -> None:
    class Both(nn.Module):
        def __init__(self, logits_first: bool) -> None:
            super().__init__()
            self.body, self.head, self.first = nn.Linear(4, 8), nn.Linear(8, 3), logits_first

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            hidden = self.body(x).relu()
            outputs = {"hidden": hidden, "logits": self.head(hidden)}
            return dict(reversed(outputs.items())) if self.first else outputs

    for first in (True, False):
        assert effective_depth(Both(first), torch.zeros(2, 4)).total == 2


@torch.jit.script
def scripted_swish(z: Tensor) -> Tensor:
    return z * torch.sigmoid(z)


def test_a_scripted_function_is_one_operation_and_a_scripted_model_is_refused() -> None:
    def net(act) -> nn.Module:
        return module(
            lambda s, x: s.head(s.stem(x) + s.b(act(s.a(s.stem(x))))),
            stem=nn.Linear(4, 4),
            a=nn.Linear(4, 4),
            b=nn.Linear(4, 4),
            head=nn.Linear(4, 2),
        )

    call = torch.jit.ScriptFunction.__call__
    seen, hidden = (effective_depth(net(act), EXAMPLE) for act in (F.silu, scripted_swish))
    assert [(u.kind, u.branch) for u in hidden.units] == [(u.kind, u.branch) for u in seen.units]
    assert torch.jit.ScriptFunction.__call__ is call
    with pytest.raises(DepthlrError, match=r"TorchScript .*pass the model that was scripted"):
        effective_depth(torch.jit.trace(residual(), EXAMPLE), EXAMPLE)


def slice_update(z: Tensor, change: Tensor) -> Tensor:
    z = z.clone()
    z[:, :4] += change[:, :4]
    return z


def view_update(z: Tensor, change: Tensor) -> Tensor:
    z = z.clone()
    z.view(-1).add_(change.view(-1))
    return z


def chunk_update(z: Tensor, change: Tensor) -> Tensor:
    z = z.clone()
    z.chunk(2, 1)[0].add_(change[:, :4])
    return z


@pytest.mark.parametrize("update", [slice_update, view_update, chunk_update])
def test_what_is_added_to_a_part_updates_the_whole(update) -> None:
    def forward(self, x: Tensor) -> Tensor:
        z = self.stem(x)
        for layer in self.layers:
            z = update(z, torch.relu(layer(z)))
        return self.head(z)

    layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
    depth = effective_depth(module(forward, stem=nn.Linear(4, 8), layers=layers, head=nn.Linear(8, 2)), EXAMPLE)
    assert (depth.plain, depth.residual, depth.flags) == (2, 3, ())


def test_what_replaces_a_part_is_flagged() -> None:
    def forward(self, x: Tensor) -> Tensor:
        z = self.stem(x).clone()
        z[:, :4] = torch.relu(self.layer(z))[:, :4]
        return self.head(z)

    parts = {"stem": nn.Linear(4, 8), "layer": nn.Linear(8, 8), "head": nn.Linear(8, 2)}
    assert "concatenative skip" in flags_of(module(forward, **parts))


@dataclass
class Detected:
    features: Tensor
    logits: Tensor


@pytest.mark.parametrize(
    ("output", "depth"),
    [
        (lambda aux, deep: (aux, deep), 6),
        (lambda aux, deep: {"aux": aux, "out": deep}, 6),
        (lambda aux, deep: Detected(aux, deep), 6),
        (lambda aux, deep: {"out": deep, "logits": aux}, 2),
        (lambda aux, deep: Detected(deep, aux), 2),
    ],
)
def test_of_several_outputs_logits_count_or_the_deepest(output, depth: int) -> None:
    def forward(self, x: Tensor):
        z = self.stem(x)
        return output(self.aux(z), self.head(self.trunk(z)))

    trunk = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(4)))
    parts = {"stem": nn.Linear(4, 8), "aux": nn.Linear(8, 2), "trunk": trunk, "head": nn.Linear(8, 2)}
    assert effective_depth(module(forward, **parts), EXAMPLE).total == depth


def test_a_weight_and_its_low_rank_correction_are_one_plain_layer() -> None:
    class Corrected(nn.Module):
        def __init__(self, wide: int, out: int) -> None:
            super().__init__()
            self.whole, self.down, self.up = nn.Linear(wide, out), nn.Linear(wide, 2), nn.Linear(2, out)

        def forward(self, x: Tensor) -> Tensor:
            return self.whole(x) + 0.5 * self.up(F.dropout(self.down(x), 0.1))

    stack = nn.Sequential(Corrected(4, 8), nn.ReLU(), Corrected(8, 8), nn.ReLU(), Corrected(8, 2))
    depth = effective_depth(stack, EXAMPLE)
    assert (depth.plain, depth.residual, depth.flags) == (3, 0, ())
    assert [u.width for u in depth.units] == [8, 8, 2]
    blocks = [module(lambda s, x: x + s.b(F.relu(s.a(x))), a=Corrected(8, 8), b=Corrected(8, 8)) for _ in range(3)]
    depth = effective_depth(nn.Sequential(nn.Linear(4, 8), *blocks, nn.Linear(8, 2)), EXAMPLE)
    assert (depth.plain, depth.residual, depth.flags) == (2, 3, ())
