"""Every model of the zoo: shapes, gradients, and what its options do."""

import pytest
import torch
from torch import nn

from depthlr.errors import DepthlrError
from depthlr.models import CNN, MLP, ZOO, CNN1d, ResNet, build

SMALL = {
    "mlp": "mlp?layers=3&width=8&inputs=12",
    "cnn": "cnn?layers=3&width=4",
    "cnn1d": "cnn1d?layers=3&width=4&inputs=2",
    "resnet": "resnet?blocks=2&width=4&plain=2&branch_layers=2&batch_norm=true&bias=true",
    "vit": "vit?blocks=2&width=12&heads=3&size=8",
    "beit": "beit?blocks=2&width=12&heads=3&size=8&norm=pre",
    "cct": "cct?blocks=2&width=12&heads=3&size=9&tokenizer_layers=2",
    "gpt": "gpt?blocks=2&width=12&heads=3&vocabulary=11&context=7",
}


def test_every_zoo_model_has_a_small_version_here():
    assert SMALL.keys() == ZOO.keys()


@pytest.mark.parametrize("name", SMALL)
def test_gradient_reaches_every_parameter(name):
    torch.manual_seed(0)
    model, example = build(SMALL[name])
    model.double()  # so that rounding cannot pass for a gradient
    output = model(*(x.double() if x.is_floating_point() else x for x in example))
    assert output.shape == ((2, 7, 11) if name == "gpt" else (2, 10))
    (output.square().sum()).backward()
    for parameter_name, parameter in model.named_parameters():
        assert parameter.grad is not None, parameter_name
        assert parameter.grad.abs().max() > 1e-10, parameter_name


@pytest.mark.parametrize("name", ZOO)
def test_defaults_take_cifar_images_or_text(name):
    model, (example,) = build(name, meta=True)
    assert tuple(example.shape) == {"mlp": (2, 3072), "cnn1d": (2, 3, 256), "gpt": (2, 128)}.get(name, (2, 3, 32, 32))
    assert tuple(model(example).shape) == ((2, 128, 256) if name == "gpt" else (2, 10))


@pytest.mark.parametrize("model", [MLP(layers=5), CNN(layers=5), CNN1d(layers=5), ResNet(blocks=4)])
def test_weighted_layers_are_bias_free_but_for_the_head(model):
    weighted = [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv1d | nn.Conv2d)]
    assert len(weighted) == 6
    assert all(m.bias is None for m in weighted[:-1])
    assert weighted[-1] is model.head
    assert model.head.bias is not None


def test_mlp_is_the_recursion_of_equation_2():
    torch.manual_seed(0)
    model = MLP(layers=3, width=5, inputs=12, classes=4, activation="tanh").double()
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    z = x.reshape(2, 12) @ model.hidden[0].weight.T
    z = torch.tanh(z) @ model.hidden[1].weight.T
    z = torch.tanh(z) @ model.hidden[2].weight.T
    expected = torch.tanh(z) @ model.head.weight.T + model.head.bias
    torch.testing.assert_close(model(x), expected)


def test_activations_are_the_named_ones():
    x = torch.linspace(-2, 2, 9)
    expected = {
        "relu": x.clamp(min=0),
        "gelu": x * 0.5 * (1 + torch.erf(x / 2**0.5)),
        "tanh": torch.tanh(x),
        "silu": x / (1 + torch.exp(-x)),
        "leaky_relu": torch.where(x < 0, 0.01 * x, x),
        "identity": x,
    }
    from depthlr.models import ACTIVATIONS

    assert ACTIVATIONS.keys() == expected.keys()
    for name, factory in ACTIVATIONS.items():
        torch.testing.assert_close(factory()(x), expected[name])


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("mlp?layers=0", "layers is 0: give a whole number of at least 1"),
        ("cnn?width=1.5", "width is 1.5: give a whole number"),
        ("cnn?activation=rellu", "did you mean 'relu'"),
        ("cnn?padding=reflect", "circular, zeros"),
        ("resnet?branch_layers=3", "at most 2"),
        ("resnet?dropout=1", "dropout is 1: give a number of at least 0 and below 1"),
        ("vit?heads=5", "heads=5 does not divide width=384"),
        ("vit?patch=5", "patch=5 does not divide size=32"),
        ("vit?norm=middle", "pre, post"),
        ("gpt?drop_path=-0.1", "drop_path is -0.1: give a number of at least 0 and below 1"),
    ],
)
def test_a_bad_argument_is_named_in_the_error(text, word):
    with pytest.raises(DepthlrError, match=word.replace("(", r"\(")):
        build(text)
