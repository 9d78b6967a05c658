"""A file of token ids: windows by index, without reading or copying the whole file."""

import json
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depthlr.data import load, tokens
from depthlr.data.examples import split
from depthlr.data.sources import load_parts
from depthlr.data.tokens import DTYPES, TokenSet
from depthlr.errors import DepthlrError


def write(folder, ids, dtype="uint16", name="train.bin"):
    np.asarray(ids).astype(np.dtype(dtype).newbyteorder("<")).tofile(folder / name)
    return folder


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 60), st.integers(1, 20), st.sampled_from(DTYPES))
def test_an_example_is_a_window_and_its_targets_are_the_next_ids(tmp_path_factory, length, context, dtype):
    ids = np.random.default_rng(length).integers(0, 50, length)
    folder = write(tmp_path_factory.mktemp("tokens"), ids, dtype)
    name = f"tokens?context={context}&dtype={dtype}&vocabulary=50"
    if length <= context:
        with pytest.raises(DepthlrError, match="need a multiple of"):
            load(name, folder)
        return
    data = load(name, folder)
    windows = [(ids[i : i + context], ids[i + 1 : i + context + 1]) for i in range(0, length - context, context)]
    assert (len(data), data.classes, data.input) == (len(windows), 50, f"ids:{context}:50")
    inputs, targets = data.batch(torch.arange(len(data)))
    assert (inputs.dtype, targets.dtype) == (torch.int64, torch.int64)
    assert inputs.tolist() == [one.tolist() for one, _ in windows]
    assert targets.tolist() == [other.tolist() for _, other in windows]


def test_the_file_itself_may_be_named_and_the_vocabulary_stand_beside_it(tmp_path):
    write(tmp_path, range(100))
    (tmp_path / "meta.json").write_text(json.dumps({"vocab_size": 128}))
    data = load("tokens?context=9", tmp_path / "train.bin")
    assert (data.classes, len(data)) == (128, 11)
    assert data.digest == load("tokens?context=4", tmp_path).digest


def test_a_split_is_the_file_of_that_name(tmp_path):
    write(write(tmp_path, range(100)), range(50, 80), name="val.bin")
    train, val = load_parts("tokens?context=9&vocabulary=100", "val", tmp_path)
    assert val.batch(torch.tensor([0]))[0].tolist() == [list(range(50, 59))]
    assert train.digest != val.digest
    with pytest.raises(DepthlrError, match=r"There is no file .*test\.bin"):
        load("tokens?context=9&vocabulary=100", tmp_path, split="test")


def test_another_process_gets_the_path_and_not_the_ids(tmp_path):
    data = load("tokens?vocabulary=50", write(tmp_path, np.arange(100_000) % 50))
    first = data.batch(torch.tensor([3, 1]))  # the file is mapped now
    sent = pickle.dumps(data)
    assert len(sent) < 2000
    assert torch.equal(pickle.loads(sent).batch(torch.tensor([3, 1]))[0], first[0])
    assert not data.ids.flags.owndata


def test_a_gpu_with_room_gets_a_copy_that_gives_the_same_batches(tmp_path, monkeypatch):
    data = load("tokens?context=8&vocabulary=50", write(tmp_path, np.arange(1000) % 50))
    assert data.to("cpu") is data
    assert data.on_host
    monkeypatch.setattr(tokens, "has_room", lambda device, size: size == 4000)
    there = data.to("cpu")
    assert not there.on_host
    for one, other in zip(there.batch(torch.tensor([5, 0])), data.batch(torch.tensor([5, 0])), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("place", ["host", "copy"])
def test_an_id_outside_the_vocabulary_is_one_sentence(tmp_path, monkeypatch, place):
    data = load("tokens?context=8&vocabulary=50", write(tmp_path, range(100)))
    monkeypatch.setattr(tokens, "has_room", lambda device, size: place == "copy")
    with pytest.raises(DepthlrError, match="outside its vocabulary of 50: give the right vocabulary and dtype"):
        data.to("cpu").batch(torch.tensor([11]))


@pytest.mark.parametrize(
    ("options", "meta", "message"),
    [
        ("", None, r"The vocabulary is not known: give it, as in tokens\?vocabulary=50304"),
        ("", "{}", "does not give a vocabulary"),
        ("", '{"vocab_size": "many"}', "give a whole number of at least 1"),
        ("", "no json", "does not give a vocabulary"),
        ("?dtype=float32", None, "tokens.dtype is 'float32': choose from uint8, uint16"),
        ("?dtype=int64&vocabulary=9", None, "need a multiple of 8"),
        ("?context=100&vocabulary=9", None, "at least 202"),
        ("?vocabulary=none", None, "give a whole number"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, options, meta, message):
    write(tmp_path, range(99))
    if meta is not None:
        (tmp_path / "meta.json").write_text(meta)
    with pytest.raises(DepthlrError, match=message):
        load(f"tokens{options or '?context=9'}", tmp_path)


def test_a_changed_file_is_refused(tmp_path):
    load("tokens?context=9&vocabulary=100", write(tmp_path, range(99)))
    with pytest.raises(DepthlrError, match="when it was first loaded"):
        load("tokens?context=9&vocabulary=100", write(tmp_path, range(1, 100)))


def test_windows_that_are_held_out_are_not_trained_on(tmp_path):
    data = load("tokens?context=8&vocabulary=256", write(tmp_path, range(201)))
    kept, out = split(data, 5)
    assert isinstance(data, TokenSet)
    assert kept.on_host
    assert out.to("cpu").on_host
    seen = [set(part.batch(torch.arange(len(part)))[0].flatten().tolist()) for part in (kept, out)]
    assert not seen[0] & seen[1]
    assert len(seen[1]) == 40
