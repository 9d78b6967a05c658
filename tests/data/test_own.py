"""A user's own data: what a DataLoader gives is what a sweep trains on."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from depthlr.data import load
from depthlr.data.own import TensorSet, gathered
from depthlr.errors import DepthlrError

X, Y = torch.randn(10, 3, 4, 4), torch.arange(10) % 5


def test_a_loader_is_gathered_in_its_order() -> None:
    found = gathered("mine", DataLoader(TensorDataset(X, Y), batch_size=4))
    assert torch.equal(found.inputs, X)
    assert torch.equal(found.targets, Y)
    assert (len(found), found.classes, found.input) == (10, 5, "3x4x4")
    inputs, targets = found.batch(torch.tensor([7, 2]))
    assert torch.equal(inputs, X[[7, 2]])
    assert torch.equal(targets, Y[[7, 2]])


def test_equal_examples_have_equal_digests_and_others_do_not() -> None:
    assert TensorSet("a", X, Y).digest == TensorSet("b", X.clone(), Y).digest
    assert TensorSet("a", X, Y).digest != TensorSet("a", X + 1, Y).digest


def test_tokens_and_regression() -> None:
    ids = torch.randint(0, 9, (6, 5))
    ids[0, 0] = 8
    assert TensorSet("tokens", ids, ids).input == "ids:5:9"
    assert TensorSet("numbers", X, torch.randn(10, 2)).classes == 0


@pytest.mark.parametrize("inputs", [torch.arange(10), torch.randn(10)])
def test_examples_without_a_shape_are_refused_in_a_sentence(inputs) -> None:
    with pytest.raises(DepthlrError, match=r"^mine has inputs of shape \(10,\): .* such as \(10, 1\)\.$"):
        TensorSet("mine", inputs, Y).input  # noqa: B018


def test_a_callable_names_a_data_set(tmp_path, monkeypatch) -> None:
    (tmp_path / "their_data.py").write_text(
        "import torch\n"
        "def batches(count='2'):\n"
        "    return [(torch.ones(3, 4), torch.zeros(3, dtype=torch.int64)) for _ in range(int(count))]\n"
        "def nothing():\n    return []\n"
        "def odd():\n    return [torch.ones(3)]\n"
        "def ragged():\n    return [(torch.ones(2, 3), torch.ones(2)), (torch.ones(2, 4), torch.ones(2))]\n"
        "def number():\n    return 3\n"
        "def broken():\n    yield 1 / 0\n"
    )
    monkeypatch.chdir(tmp_path)
    assert len(load("their_data:batches")) == 6
    assert len(load("their_data:batches?count=5")) == 15
    for name, message in {
        "nothing": "no batches",
        "odd": "pairs of tensors",
        "ragged": "different shapes",
        "number": "returned int",
        "missing": "has no 'missing'",
        "broken": r"^their_data:broken could not be loaded \(ZeroDivisionError: division by zero\)\.$",
    }.items():
        with pytest.raises(DepthlrError, match=message):
            load(f"their_data:{name}")
