"""Which examples each step sees."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from depthlr.data import batch_order, steps_per_epoch
from depthlr.data.batches import CLASS_SHARE, random_batches
from depthlr.errors import DepthlrError


@st.composite
def orders(draw):
    examples = draw(st.integers(1, 60))
    return examples, draw(st.integers(1, examples)), draw(st.integers(0, 40)), draw(st.integers(0, 2**31))


@given(orders())
@settings(max_examples=60)
def test_no_epoch_repeats_an_example(order):
    examples, batch, steps, seed = order
    found = batch_order(examples, batch, steps, seed)
    assert (found.shape, found.dtype, found.device.type) == ((steps, batch), torch.int64, "cpu")
    per_epoch = steps_per_epoch(examples, batch)
    for epoch in found.split(per_epoch):
        assert len(epoch.unique()) == epoch.numel()
        assert epoch.numel() == 0 or 0 <= int(epoch.min()) <= int(epoch.max()) < examples


@given(orders(), st.integers(0, 40))
@settings(max_examples=60)
def test_a_longer_order_begins_with_the_shorter_one(order, more):
    examples, batch, steps, seed = order
    longer = batch_order(examples, batch, steps + more, seed)
    assert torch.equal(longer[:steps], batch_order(examples, batch, steps, seed))


def test_an_order_is_a_function_of_its_seed_alone():
    torch.manual_seed(1)
    first = batch_order(1000, 10, 150, seed=3)
    torch.manual_seed(2)
    assert torch.equal(first, batch_order(1000, 10, 150, seed=3))
    assert not torch.equal(first, batch_order(1000, 10, 150, seed=4))


def test_every_epoch_is_shuffled_afresh():
    first, second = batch_order(100, 10, 20, seed=0).split(10)
    assert not torch.equal(first, second)
    assert torch.equal(first.flatten().sort()[0], second.flatten().sort()[0])


def test_making_an_order_leaves_torchs_own_generator_alone():
    before = torch.random.get_rng_state()
    batch_order(50, 5, 30, seed=0)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("batch", [0, -1, 11])
def test_an_impossible_batch_is_refused(batch):
    with pytest.raises(DepthlrError, match="choose from 1 to 10"):
        batch_order(10, batch, 5, seed=0)


def test_an_incomplete_last_batch_is_dropped():
    assert steps_per_epoch(10, 4) == 2


IMAGES = torch.zeros(2, 3, 8, 8)
TOKENS = torch.arange(50).view(2, 25)


def inputs_of(batches: list) -> Tensor:
    return torch.cat([inputs for inputs, _ in batches])


def targets_of(batches: list) -> Tensor:
    return torch.cat([target for _, target in batches])


# -- random -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_images_are_like_the_example_whatever_its_batch_size(dtype: torch.dtype) -> None:
    batches = random_batches(IMAGES.to(dtype), (2, 10), size=7, count=4, seed=0)
    assert len(batches) == 4
    for inputs, target in batches:
        assert (inputs.shape, inputs.dtype) == ((7, 3, 8, 8), dtype)
        assert (target.shape, target.dtype) == ((7,), torch.int64)


def test_images_are_standard_normal() -> None:
    classes, size, count = 20, 50, 10
    x = inputs_of(random_batches(IMAGES, (2, classes), size, count, seed=0)).double()
    numbers = x[0].numel()
    # The classes' patterns are shared by their examples, so they set the standard errors.
    error = math.sqrt(CLASS_SHARE / (classes * numbers) + (1 - CLASS_SHARE) / x.numel())
    assert abs(float(x.mean())) < 4 * error
    assert abs(float(x.square().mean()) - 1) < 4 * math.sqrt(2) * error
    assert float((x**4).mean()) == pytest.approx(3, abs=0.2)  # a normal's


@pytest.mark.parametrize(("example", "readout"), [(IMAGES, (2, 10)), (TOKENS, (2, 25, 50)), (TOKENS, (2, 10))])
def test_the_seed_decides_everything(example: Tensor, readout: tuple[int, ...]) -> None:
    state = torch.get_rng_state()
    first, again, other = (random_batches(example, readout, 6, 3, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    for of in (inputs_of, targets_of):
        assert torch.equal(of(first), of(again))
        assert not torch.equal(of(first), of(other))
    longer = random_batches(example, readout, 6, 5, seed=0)
    assert torch.equal(inputs_of(longer[:3]), inputs_of(first))


@pytest.mark.parametrize(("readout", "shape"), [((2, 4), (40,)), ((2, 9, 4), (40, 9))])
def test_targets_are_classes_and_all_of_them_occur(readout: tuple[int, ...], shape: tuple[int, ...]) -> None:
    for _, target in random_batches(IMAGES, readout, 40, 3, seed=0):
        assert target.shape == shape
        assert set(target.flatten().tolist()) == {0, 1, 2, 3}
        assert target.dim() == 1 or (target == target[:, :1]).all()  # an example's class is that of all its places


def test_images_of_a_class_are_alike_in_every_batch_and_those_of_two_classes_are_not() -> None:
    classes = 5
    batches = random_batches(IMAGES, (2, classes), 200, 2, seed=0)
    means = [torch.stack([x[y == kind].mean(0).flatten() for kind in range(classes)]) for x, y in batches]
    correlation = torch.corrcoef(torch.cat(means))[:classes, classes:]
    assert (correlation.diag() > 0.9).all()
    assert (correlation - correlation.diag().diag()).abs().max() < 0.4  # 192 numbers: 4 standard errors are 0.29
    one, two = (x[y == 0][:2] for x, y in batches)
    shared = torch.corrcoef(torch.cat([one, two]).flatten(1))
    assert shared[~torch.eye(4, dtype=torch.bool)] == pytest.approx(torch.full((12,), CLASS_SHARE), abs=0.25)


def test_a_classifier_of_one_batch_reads_the_next() -> None:
    (x, y), (unseen, true) = random_batches(IMAGES, (2, 4), 100, 2, seed=0)
    means = torch.stack([x[y == kind].mean(0).flatten() for kind in range(4)])
    assert ((unseen.flatten(1) @ means.T).argmax(1) == true).float().mean() > 0.95


def test_tokens_are_those_of_the_example_and_a_scored_ones_target_is_its_own() -> None:
    batches = random_batches(TOKENS, (2, 25, 60), 30, 3, seed=0)
    x, y = inputs_of(batches), targets_of(batches)
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((90, 25), torch.int64, (90, 25), torch.int64)
    assert set(x.flatten().tolist()) == set(range(50))
    assert int(y.min()) >= 0
    assert int(y.max()) < 60
    for token in range(50):
        assert len(y[x == token].unique()) == 1
    assert len(y.unique()) > 20


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_tokens_may_be_narrow_integers(dtype: torch.dtype) -> None:
    (x, y), (wide, true) = (random_batches(TOKENS.to(d), (2, 25, 60), 4, 1, seed=0)[0] for d in (dtype, torch.int64))
    assert x.dtype == dtype
    assert torch.equal(x.long(), wide)
    assert torch.equal(y, true)


def test_tokens_of_one_class_are_half_its_own_where_the_readout_scores_the_whole() -> None:
    x, y = (of(random_batches(TOKENS.int(), (2, 3), 100, 2, seed=0)) for of in (inputs_of, targets_of))
    assert (x.dtype, y.shape) == (torch.int32, (200,))
    for kind in range(3):
        mine = x[y == kind]
        share = (mine == mine.mode(dim=0).values).float().mean()
        assert float(share) == pytest.approx(CLASS_SHARE + (1 - CLASS_SHARE) / 50, abs=0.05)


def test_an_example_of_several_tensors_keeps_its_form() -> None:
    example = {"images": IMAGES, "tokens": (TOKENS, torch.ones(2, 25, dtype=torch.bool)), "flag": True, "none": None}
    for inputs, target in random_batches(example, (2, 25, 9), 4, 3, seed=0):
        assert list(inputs) == list(example)
        assert inputs["images"].shape == (4, 3, 8, 8)
        tokens, mask = inputs["tokens"]
        assert (tokens.shape, mask.shape, mask.dtype) == ((4, 25), (4, 25), torch.bool)
        assert inputs["flag"] is True
        assert inputs["none"] is None
        assert target.shape == (4, 25)
        assert all(len(target[tokens == token].unique()) == 1 for token in tokens.unique())


def test_nothing_is_learnt_from_no_batch() -> None:
    assert random_batches(IMAGES, (2, 10), 4, 0, seed=0) == []
