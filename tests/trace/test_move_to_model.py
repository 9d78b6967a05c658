"""An example goes where the model is, as a data-parallel wrapper would put it."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from depthlr.trace import effective_depth
from depthlr.trace.interface import move_to_model


def holder(*devices: str) -> nn.Module:
    """Weights on these devices: fake ones, which need no such device."""
    return nn.ParameterList([nn.Parameter(torch.empty(2, device=device)) for device in devices])


@pytest.mark.parametrize(
    ("on", "given", "then"),
    [
        (["cuda"], "cpu", "cuda"),
        (["cuda", "cuda"], "cpu", "cuda"),
        (["cuda", "cpu"], "cpu", "cpu"),  # it moves its inputs itself
        (["cpu"], "cuda", "cuda"),  # weights may be offloaded
        (["meta"], "cpu", "cpu"),
        (["cuda"], "meta", "meta"),
    ],
    ids=str,
)
def test_a_cpu_example_goes_to_the_one_device_of_the_model(on, given, then) -> None:
    with FakeTensorMode():
        example = torch.empty(3, device=given)
        ((positional,), named) = move_to_model(holder(*on), ((example,), {"mask": example, "flag": True}))
    assert positional.device.type == named["mask"].device.type == then
    assert named["flag"] is True


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_depth_on_a_gpu_takes_an_example_from_the_cpu() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).cuda()
    assert effective_depth(model, torch.randn(5, 4)).total == 2
