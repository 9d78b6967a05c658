"""Data sets in memory: numbers of order one on any device, without reading a value back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depthlr.data import DataSet, TextSet, digit_set
from depthlr.errors import DepthlrError
from depthlr.models.example import parse_input


def images(count: int = 12, channels: int = 3, seed: int = 0) -> DataSet:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randint(256, (count, channels, 4, 5), generator=generator, dtype=torch.uint8)
    return DataSet.of("made", inputs, torch.arange(count) % 3, 3, "ours")


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


@pytest.mark.parametrize("data", [images(), text(), text(dtype=torch.int16), digit_set()], ids=lambda d: d.input)
def test_a_batch_reads_no_value_back(data):
    """On the meta device there are no values, so what runs there never waits for one: a CUDA graph can hold it."""
    inputs, targets = data.to("meta").batch(torch.empty(5, dtype=torch.int64, device="meta"))
    here, labels = data.batch(torch.arange(5))
    assert (inputs.shape, inputs.dtype, inputs.device.type) == (here.shape, here.dtype, "meta")
    assert (targets.shape, targets.dtype, targets.device.type) == (labels.shape, torch.int64, "meta")


@pytest.mark.parametrize("data", [images(), text(), digit_set()], ids=lambda d: d.input)
def test_a_model_can_be_built_for_the_input(data):
    wanted = parse_input(data.input).tensor()
    inputs, _ = data.batch(torch.arange(2))
    assert (wanted.shape, wanted.dtype) == (inputs.shape, inputs.dtype)


def test_a_batch_is_not_the_data():
    data = images()
    data.batch(torch.arange(4))[0].zero_()
    assert torch.equal(data.inputs, images().inputs)


def test_a_constant_channel_becomes_zero():
    data = DataSet.of("flat", torch.full((4, 1, 2, 2), 7, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64), 1, "")
    assert data.batch(torch.arange(4))[0].abs().max() == 0


def test_the_digest_follows_every_byte_label_and_shape():
    data = images()
    changed = data.inputs.clone()
    changed[3, 1, 2, 2] ^= 1
    relabelled = data.targets.clone()
    relabelled[0] = 2
    reshaped = data.inputs.view(12, 3, 5, 4)
    variants = [(changed, data.targets), (data.inputs, relabelled), (reshaped, data.targets)]
    digests = {DataSet.of("made", x, y, 3, "ours").digest for x, y in variants} | {data.digest}
    assert len(digests) == 4
    assert images().digest == data.digest
    assert data.to("cpu").digest == data.digest


@pytest.mark.parametrize(
    ("inputs", "targets", "message"),
    [
        (torch.zeros(2, 1, 2, 2), torch.zeros(2, dtype=torch.int64), "uint8"),
        (torch.zeros(2, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64), "uint8"),
        (torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64), "one int64 target"),
        (torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.zeros(2), "one int64 target"),
    ],
)
def test_tensors_of_another_kind_are_refused(inputs, targets, message):
    with pytest.raises(DepthlrError, match=message):
        DataSet("made", inputs, targets, 3, (0.0,), (1.0,), "", "")


def test_labels_beyond_the_classes_are_refused():
    with pytest.raises(DepthlrError, match="labels from 0 to 5, but 3 classes"):
        DataSet.of("made", torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 5]), 3, "")


def test_no_examples_are_refused():
    with pytest.raises(DepthlrError, match="no examples"):
        DataSet.of("made", torch.zeros(0, 1, 2, 2, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64), 3, "")


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
    with pytest.raises(DepthlrError, match="from 1 to 39"):
        text(40, context)
