"""The yardstick itself: it accepts the truth, rejects a 10 % slip, and refuses a test too weak to see one."""

import pytest
import torch
from tests.theory.montecarlo import (
    LINE,
    SQUARE,
    Estimate,
    assert_agrees,
    assert_differs,
    estimate,
    forward,
    gaussian,
    generator,
    he_weights,
    patches,
    ratio_of_means,
    tangents,
    wide_limit,
)
from torch.nn import functional as F


def test_a_true_theory_passes_and_a_slip_of_a_tenth_does_not():
    measured = Estimate(1.001, 0.01)
    assert_agrees(measured, 1.0)
    for slip in (0.9, 1.1):
        with pytest.raises(AssertionError, match="theory"):
            assert_agrees(measured, slip)
    assert_differs(measured, 1.1)
    with pytest.raises(AssertionError, match="claimed"):
        assert_differs(measured, 1.0)


def test_too_few_samples_are_refused():
    with pytest.raises(AssertionError, match="no power"):
        assert_agrees(Estimate(1.0, 0.03), 1.0)


def test_estimates_and_ratios_have_honest_standard_errors():
    source = generator(0)
    shared = gaussian(source, 400, 500).exp()
    noisy = shared * (1 + 0.1 * gaussian(source, 400, 500))
    means = torch.tensor([estimate(row).mean for row in shared])
    errors = torch.tensor([estimate(row).error for row in shared])
    assert errors.median().item() == pytest.approx(means.std().item(), rel=0.15)
    pairs = [ratio_of_means(a, b) for a, b in zip(noisy, shared, strict=True)]
    ratios = torch.tensor([p.mean for p in pairs])
    assert torch.tensor([p.error for p in pairs]).mean().item() == pytest.approx(ratios.std().item(), rel=0.15)


def test_the_wide_limit_removes_a_correction_of_order_one_over_width():
    assert wide_limit(Estimate(3 + 5 / 64, 0.0), Estimate(3 + 5 / 128, 0.0)).mean == pytest.approx(3)


@pytest.mark.parametrize(("neighbours", "grid"), [(LINE, (6,)), (SQUARE, (3, 4))])
def test_patches_make_the_circular_convolution_of_torch(neighbours, grid):
    source = generator(1)
    x, weight = gaussian(source, 2, 3, *grid), gaussian(source, 5, 3, *[3] * len(grid))
    pad = F.pad(x, [1, 1] * len(grid), mode="circular")
    reference = (F.conv1d if len(grid) == 1 else F.conv2d)(pad, weight)
    ours = weight.flatten(1) @ patches(x.flatten(2), neighbours)
    torch.testing.assert_close(ours, reference.flatten(2))


def test_tangents_are_those_of_autograd():
    source = generator(2)
    weights = he_weights(source, 4, 3, 3, LINE)
    direction = [gaussian(source, *w.shape) for w in weights]
    x = gaussian(source, 1, 3, 6).expand(4, -1, -1)
    _, reference = torch.func.jvp(lambda *w: tuple(forward(w, x, LINE)), tuple(weights), tuple(direction))
    for (_, ours), theirs in zip(tangents(weights, x, LINE, direction), reference, strict=True):
        torch.testing.assert_close(ours, theirs)
