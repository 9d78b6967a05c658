"""A torch `Dataset` of the user's own: read batch by batch, the same batch for the same indices, in every process."""

import pickle
import random

import numpy as np
import pytest
import torch

from depthlr.data import load
from depthlr.data.examples import split
from depthlr.data.sets import TorchDataset
from depthlr.errors import DepthlrError

OWN = """
import random
import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset

class Noisy(Dataset):
    classes = ["a", "b", "c"]
    def __init__(self, count=100, scale=1.0):
        self.count = int(count)
        self.calls = []
    def __len__(self):
        return self.count
    def __getitem__(self, i):
        self.calls.append(i)
        noise = torch.rand(4) + np.random.rand() + random.random()
        return torch.full((4,), float(i)) + noise / 10, i % 3

def noisy(count=100):
    return Noisy(count)

def numbers():
    return TensorDataset(torch.arange(40.0).view(20, 2), torch.arange(20.0))

class AtOnce(Noisy):
    def __getitems__(self, indices):
        return [(torch.full((4,), float(i)), 0.5 * i) for i in indices]

def at_once():
    return AtOnce()

class Odd(Noisy):
    def __getitem__(self, i):
        return {"inputs": torch.zeros(4)}
def odd():
    return Odd()

class Ragged(Noisy):
    def __getitem__(self, i):
        return torch.zeros(i + 1), 0
def ragged():
    return Ragged()

class Broken(Noisy):
    def __getitem__(self, i):
        raise OSError("no such file")
def broken():
    return Broken()

def empty():
    return Noisy(0)

class Stream(IterableDataset):
    def __iter__(self):
        yield torch.zeros(2, 4), torch.zeros(2)
def stream():
    return Stream()
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "their_dataset.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)


def test_a_dataset_is_described_by_a_few_of_its_examples():
    data = load("their_dataset:noisy?count=10000")
    assert isinstance(data, TorchDataset)
    assert (len(data), data.classes, data.input, data.on_host) == (10_000, 3, "4", True)
    assert len(set(data.dataset.calls)) == 64
    assert {0, 9999} <= set(data.dataset.calls)
    assert data.digest == load("their_dataset:noisy?count=10000").digest
    assert data.digest != load("their_dataset:noisy?count=9999").digest
    assert load("their_dataset:numbers").classes == 0


def test_the_same_indices_give_the_same_batch_and_draw_nothing_of_ours():
    data = load("their_dataset:noisy")
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    one = data.batch(torch.tensor([5, 2]))
    other = pickle.loads(pickle.dumps(data)).batch(torch.tensor([5, 2]))
    assert torch.equal(one[0], other[0])
    assert one[1].tolist() == [2, 2]
    assert not torch.equal(data.batch(torch.tensor([2, 5]))[0][1], one[0][0])  # another batch has other noise
    after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # noqa: NPY002
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


def test_another_process_makes_the_dataset_itself():
    data = load("their_dataset:noisy")
    assert b"calls" not in pickle.dumps(data)
    assert pickle.loads(pickle.dumps(data)).digest == data.digest


def test_numbers_become_single_precision_and_batches_are_read_at_once():
    inputs, target = load("their_dataset:at_once").batch(torch.tensor([3, 1]))
    assert inputs.tolist() == [[3.0] * 4, [1.0] * 4]
    assert target.dtype == torch.float32
    assert target.tolist() == [1.5, 0.5]


def test_a_share_can_be_held_out():
    kept, out = split(load("their_dataset:noisy"), 0.2)
    assert (len(kept), len(out), kept.on_host, out.to("cpu").on_host) == (80, 20, True, True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("odd", "their_dataset:odd has examples that make no batch: return pairs of an input and a target"),
        ("ragged", "their_dataset:ragged has examples that make no batch"),
        ("broken", r"their_dataset:broken could not be loaded \(OSError: no such file\)"),
        ("empty", "their_dataset:empty has examples that make no batch"),
    ],
)
def test_a_dataset_that_makes_no_batches_is_one_sentence(name, message):
    with pytest.raises(DepthlrError, match=message):
        load(f"their_dataset:{name}")


def test_a_stream_is_gathered_in_memory():
    assert len(load("their_dataset:stream")) == 2
