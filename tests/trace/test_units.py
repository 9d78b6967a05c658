"""Where a unit's pre-activation is, and what ends its branch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from depthlr import effective_depth
from depthlr.models.build import build

WIDTH = 8
EXAMPLE = torch.randn(5, WIDTH)


class Update(nn.Module):
    """Its norm before the branch or after the addition."""

    def __init__(self, norm: str = "pre") -> None:
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.post = norm == "post"

    def forward(self, z: Tensor) -> Tensor:
        branch = self.outer(F.gelu(self.inner(z if self.post else self.norm(z))))
        return self.norm(z + branch) if self.post else z + branch


class Projected(nn.Module):
    """Norm first, for branch and skip alike, as where a pre-activation ResNet's stage begins."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.skip, self.branch = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, z: Tensor) -> Tensor:
        z = self.norm(z)
        return self.skip(z) + self.last(F.gelu(self.branch(z)))


def linear() -> nn.Linear:
    return nn.Linear(WIDTH, WIDTH)


def updates(count: int, norm: str = "pre") -> nn.Sequential:
    return nn.Sequential(*(Update(norm) for _ in range(count)))


def downsampling() -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(WIDTH), linear())


def normed(model: nn.Module) -> list[bool]:
    """Of each residual update: is it seen after a norm?"""
    units = effective_depth(model, EXAMPLE).units
    return [unit.state != unit.node for unit in units if unit.kind == "residual"]


@pytest.mark.parametrize("between", [downsampling, Projected])
@pytest.mark.parametrize("stages", [(2, 2, 2), (1, 2, 1), (1, 1, 2)])
def test_a_norm_that_ends_a_stage_does_not_make_its_last_update_post_norm(between, stages: tuple[int, ...]) -> None:
    first, *others = (updates(count) for count in stages)
    pyramid = nn.Sequential(linear(), first, *(part for stage in others for part in (between(), stage)))
    assert not any(normed(nn.Sequential(pyramid, nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2))))


def test_updates_of_post_norm_stacks_and_pyramids_are_all_seen_after_their_norms() -> None:
    assert normed(nn.Sequential(linear(), updates(3, "post"), nn.Linear(WIDTH, 2))) == [True] * 3
    pyramid = (linear(), updates(2, "post"), linear(), updates(2, "post"), nn.Linear(WIDTH, 2))
    assert normed(nn.Sequential(*pyramid)) == [True] * 4
    assert normed(nn.Sequential(linear(), Update("post"), linear(), Update("post"), nn.Linear(WIDTH, 2))) == [True] * 2


def test_where_the_normed_stream_is_carried_on_it_is_post_norm_whatever_the_majority() -> None:
    model = nn.Sequential(linear(), updates(6), linear(), updates(3, "post"), nn.Linear(WIDTH, 2))
    assert normed(model)[:-1] == [False] * 6 + [True] * 2


@pytest.mark.parametrize("name", ["swin_tiny_patch4_window7_224", "convnext_tiny", "resnetv2_50"])
def test_pre_norm_pyramids_of_timm_are_seen_at_the_stream(timm_module: object, name: str) -> None:
    units = effective_depth(*build(f"timm/{name}", meta=True)).units
    assert all(unit.state == unit.node for unit in units if unit.kind == "residual")


class Added(nn.Module):
    """The branch first or the stream."""

    def __init__(self, branch_first: bool) -> None:
        super().__init__()
        self.inner, self.outer, self.branch_first = linear(), linear(), branch_first

    def forward(self, z: Tensor) -> Tensor:
        branch = torch.relu(self.outer(torch.relu(self.inner(z))))
        return branch + z if self.branch_first else z + branch


@pytest.mark.parametrize("units", [None, [Added]])
def test_the_order_of_an_addition_changes_no_unit(units) -> None:
    one, other = (
        effective_depth(nn.Sequential(linear(), Added(first), Added(first)), EXAMPLE, units=units).units
        for first in (False, True)
    )
    assert [(u.kind, u.path, u.branch, u.width) for u in one] == [(u.kind, u.path, u.branch, u.width) for u in other]
    assert [u.branch for u in other] == ["0", "1.outer", "2.outer"]


def test_a_branch_may_be_scaled_by_another_input() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.inner, self.outer, self.head = linear(), linear(), linear(), linear()

        def forward(self, x: Tensor, scale: Tensor) -> Tensor:
            z = self.stem(x)
            return self.head(torch.addcmul(z, self.outer(F.relu(self.inner(z))), scale))

    depth = effective_depth(Scaled(), (EXAMPLE, torch.ones(5, WIDTH)))
    assert [(u.kind, u.branch) for u in depth.units] == [("plain", "stem"), ("residual", "outer"), ("plain", "head")]
