"""The loss of a study, if it names no other: as torch's, whatever the readout's layout."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from depthlr.training.task import mean_cross_entropy


@pytest.mark.parametrize(
    ("shape", "classes_at"), [((4, 5), 1), ((4, 6, 5), 2), ((4, 5, 6), 1), ((4, 5, 6, 7), 1), ((4, 5, 5, 5), 1)]
)
def test_classes_lie_where_the_target_leaves_them(shape, classes_at) -> None:
    logits = torch.randn(shape)
    rest = [size for place, size in enumerate(shape) if place != classes_at]
    target = torch.randint(shape[classes_at], rest)
    expected = F.cross_entropy(logits.movedim(classes_at, 1), target)
    torch.testing.assert_close(mean_cross_entropy(logits, target), expected)


def test_as_many_tokens_as_classes_are_tokens() -> None:
    logits, target = torch.randn(4, 5, 5), torch.randint(5, (4, 5))
    torch.testing.assert_close(mean_cross_entropy(logits, target), F.cross_entropy(logits.mT, target))


def test_a_models_output_may_be_a_mapping() -> None:
    logits, target = torch.randn(4, 5), torch.randint(5, (4,))
    assert mean_cross_entropy({"loss": None, "logits": logits}, target) == F.cross_entropy(logits, target)
