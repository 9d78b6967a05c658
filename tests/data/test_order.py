"""Which examples each step sees."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depthlr.data import batch_order, steps_per_epoch
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


def test_negative_steps_are_refused():
    with pytest.raises(DepthlrError, match="0 or more"):
        batch_order(10, 2, -1, seed=0)


def test_an_incomplete_last_batch_is_dropped():
    assert steps_per_epoch(10, 4) == 2
