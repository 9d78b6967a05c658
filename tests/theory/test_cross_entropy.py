"""Cross-entropy at initialization (App. "On the Loss"): |p - y|^2 = 1 - 1/C at zero logits, a little more nearby."""

import pytest
import torch
from tests.theory.montecarlo import assert_agrees, gaussian, generator
from tests.theory.overlap import cross_entropy_gradient_norm2
from torch.nn import functional as F


@pytest.mark.parametrize("classes", [2, 10, 100, 1000])
def test_zero_logits_give_one_minus_one_over_classes(classes):
    logits = torch.zeros(1, classes, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(F.cross_entropy(logits, torch.tensor([classes // 2])), logits)
    assert gradient.square().sum().item() == pytest.approx(1 - 1 / classes, abs=1e-12)
    assert cross_entropy_gradient_norm2(classes) == pytest.approx(1 - 1 / classes, abs=1e-15)


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_small_logits_add_their_variance_over_classes(classes):
    # labels independent of the logits: E|p - y|^2 = 1 - 2/C + E|p|^2, and |p|^2 = 1/C + s^2 (C - 1) / C^2 + O(s^4)
    std = 0.03
    logits = std * gaussian(generator(101), 16_000, classes)
    excess = torch.softmax(logits, 1).square().sum(1) - 1 / classes
    assert_agrees(excess, std**2 * (classes - 1) / classes**2, f"excess of |p - y|^2, {classes} classes, std {std}")


def test_a_batch_of_true_gradients_has_that_size():
    classes, std = 10, 0.1
    source = generator(102)
    logits = (std * gaussian(source, 4000, classes)).requires_grad_()
    labels = torch.randint(classes, (4000,), generator=source)
    (gradient,) = torch.autograd.grad(F.cross_entropy(logits, labels, reduction="sum"), logits)
    theory = 1 - 1 / classes + std**2 * (classes - 1) / classes**2
    assert_agrees(gradient.square().sum(1), theory, "E|p - y|^2, 10 classes")
