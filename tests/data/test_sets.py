"""Data sets in memory: numbers of order one on any device, without reading a value back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from depthlr.data import DataSet, TextSet, load, load_digits
from depthlr.data.sets import TensorSet, gather_batches
from depthlr.errors import DepthlrError
from depthlr.models.inputs import parse_input


def images(count: int = 12, channels: int = 3, seed: int = 0) -> DataSet:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randint(256, (count, channels, 4, 5), generator=generator, dtype=torch.uint8)
    return DataSet.from_tensors("made", inputs, torch.arange(count) % 3, 3, "ours")


def text(length: int = 40, context: int = 6, dtype: torch.dtype = torch.uint8) -> TextSet:
    return TextSet("made", torch.arange(length).to(dtype) % 7, context, "abcdefg", "0" * 64, "ours")


def test_the_whole_set_has_mean_0_and_variance_1_in_every_channel():
    inputs, _ = images(200).batch(torch.arange(200))
    assert inputs.dtype == torch.float32
    torch.testing.assert_close(inputs.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(inputs.var((0, 2, 3), correction=0), torch.ones(3), atol=1e-4, rtol=0)


def test_mean_and_std_are_those_of_the_bytes():
    data = images(50)
    x = data.inputs.double().transpose(0, 1).flatten(1)
    assert data.mean == pytest.approx(x.mean(1).tolist())
    assert data.std == pytest.approx(x.std(1, correction=0).tolist())


@given(st.lists(st.integers(0, 11), max_size=20))
@settings(max_examples=30)
def test_a_batch_is_the_examples_one_by_one(indices):
    data = images()
    inputs, targets = data.batch(torch.tensor(indices, dtype=torch.int64))
    assert inputs.shape == (len(indices), 3, 4, 5)
    assert targets.dtype == torch.int64
    for i, x, y in zip(indices, inputs, targets, strict=True):
        one, label = data.batch(torch.tensor([i]))
        assert torch.equal(one[0], x)
        assert label == y == i % 3


@pytest.mark.parametrize("data", [images(), text(), text(dtype=torch.int16), load_digits()], ids=lambda d: d.input)
def test_a_batch_reads_no_value_back(data):
    """On the meta device there are no values, so what runs there never waits for one: a CUDA graph can hold it."""
    inputs, targets = data.to("meta").batch(torch.empty(5, dtype=torch.int64, device="meta"))
    here, labels = data.batch(torch.arange(5))
    assert (inputs.shape, inputs.dtype, inputs.device.type) == (here.shape, here.dtype, "meta")
    assert (targets.shape, targets.dtype, targets.device.type) == (labels.shape, torch.int64, "meta")


@pytest.mark.parametrize("data", [images(), text(), load_digits()], ids=lambda d: d.input)
def test_a_model_can_be_built_for_the_input(data):
    wanted = parse_input(data.input).tensor()
    inputs, _ = data.batch(torch.arange(2))
    assert (wanted.shape, wanted.dtype) == (inputs.shape, inputs.dtype)


def test_a_batch_is_not_the_data():
    data = images()
    data.batch(torch.arange(4))[0].zero_()
    assert torch.equal(data.inputs, images().inputs)


def test_a_constant_channel_becomes_zero():
    data = DataSet.from_tensors(
        "flat", torch.full((4, 1, 2, 2), 7, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64), 1, ""
    )
    assert data.batch(torch.arange(4))[0].abs().max() == 0


def test_the_digest_follows_every_byte_label_and_shape():
    data = images()
    changed = data.inputs.clone()
    changed[3, 1, 2, 2] ^= 1
    relabelled = data.targets.clone()
    relabelled[0] = 2
    reshaped = data.inputs.view(12, 3, 5, 4)
    variants = [(changed, data.targets), (data.inputs, relabelled), (reshaped, data.targets)]
    digests = {DataSet.from_tensors("made", x, y, 3, "ours").digest for x, y in variants} | {data.digest}
    assert len(digests) == 4
    assert images().digest == data.digest
    assert data.to("cpu").digest == data.digest


def test_labels_beyond_the_classes_are_refused():
    with pytest.raises(DepthlrError, match="labels from 0 to 5, but 3 classes"):
        DataSet.from_tensors("made", torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 5]), 3, "")


def test_no_examples_are_refused():
    with pytest.raises(DepthlrError, match="no examples"):
        DataSet.from_tensors(
            "made", torch.zeros(0, 1, 2, 2, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64), 3, ""
        )


@given(st.integers(2, 40), st.data())
@settings(max_examples=30)
def test_targets_of_a_text_are_its_ids_one_place_on(length, draw):
    context = draw.draw(st.integers(1, length - 1))
    data = text(length, context)
    everything = torch.arange(len(data))
    inputs, targets = data.batch(everything)
    assert len(data) == length - context
    for i in range(len(data)):
        assert inputs[i].tolist() == data.ids[i : i + context].tolist()
        assert targets[i].tolist() == data.ids[i + 1 : i + context + 1].tolist()


@pytest.mark.parametrize("context", [0, 40, 41])
def test_a_context_that_does_not_fit_is_refused(context):
    with pytest.raises(DepthlrError, match=r"The context of made is .*: give a whole number of at (least 1|most 39)"):
        text(40, context)


X, Y = torch.randn(10, 3, 4, 4), torch.arange(10) % 5


def test_a_loader_is_gathered_in_its_order() -> None:
    found = gather_batches("mine", DataLoader(TensorDataset(X, Y), batch_size=4))
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
        "number": "'int' object is not iterable",
        "missing": "has no attribute 'missing'",
        "broken": r"^their_data:broken could not be loaded \(ZeroDivisionError: division by zero\)\.$",
    }.items():
        with pytest.raises(DepthlrError, match=message):
            load(f"their_data:{name}")
