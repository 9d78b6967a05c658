"""The residual block against its formula, z + W sigma(z)."""

import pytest
import torch
import torch.nn.functional as F

from depthlr.models import ResNet


def stem_and_branch_weights(model):
    weights = [w for name, w in model.named_parameters() if w.ndim == 4]
    return weights[: len(model.plain)], weights[len(model.plain) :]


def convolve(x, weight):
    return F.conv2d(x, weight, padding=1)


def pooled_head(model, z):
    return z.mean((2, 3)) @ model.head.weight.T + model.head.bias


@pytest.fixture
def image():
    return torch.randn(2, 3, 6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("branch_layers", [1, 2])
@pytest.mark.parametrize("plain", [1, 3])
def test_resnet_is_plain_layers_then_residual_updates(image, branch_layers, plain):
    torch.manual_seed(0)
    model = ResNet(blocks=3, width=4, plain=plain, branch_layers=branch_layers).double()
    stem, branches = stem_and_branch_weights(model)
    assert len(branches) == 3 * branch_layers
    z = convolve(image, stem[0])
    for weight in stem[1:]:
        z = convolve(z.relu(), weight)
    for start in range(0, len(branches), branch_layers):
        update = z
        for weight in branches[start : start + branch_layers]:
            update = convolve(update.relu(), weight)
        z = z + update
    torch.testing.assert_close(model(image), pooled_head(model, z.relu()))


def test_activation_after_is_the_order_of_the_authors_code(image):
    torch.manual_seed(0)
    model = ResNet(blocks=3, width=4, activation_after=True).double()
    (stem,), branches = stem_and_branch_weights(model)
    z = convolve(image, stem).relu()
    for weight in branches:
        z = z + convolve(z, weight).relu()
    torch.testing.assert_close(model(image), pooled_head(model, z))


def test_batch_norm_stands_behind_the_convolution(image):
    torch.manual_seed(0)
    model = ResNet(blocks=2, width=4, batch_norm=True).double()
    (stem,), branches = stem_and_branch_weights(model)
    z = convolve(image, stem)
    for weight in branches:
        update = convolve(z.relu(), weight)
        mean, variance = update.mean((0, 2, 3), keepdim=True), update.var((0, 2, 3), keepdim=True, correction=0)
        z = z + (update - mean) / (variance + 1e-5).sqrt()
    torch.testing.assert_close(model(image), pooled_head(model, z.relu()))


def test_dropout_acts_in_training_only_and_follows_the_seed(image):
    model = ResNet(blocks=2, width=8, dropout=0.5).double()

    def run(seed):
        torch.manual_seed(seed)
        return model(image)

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))
    model.eval()
    assert torch.equal(run(0), run(1))


def test_dropped_branches_leave_the_skip_alone(image):
    torch.manual_seed(0)
    model = ResNet(blocks=1, width=4, dropout=0.999999).double()  # all but surely everything in the branch is dropped
    (stem,), _ = stem_and_branch_weights(model)
    torch.testing.assert_close(model(image), pooled_head(model, convolve(image, stem).relu()))
