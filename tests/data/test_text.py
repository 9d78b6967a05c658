"""A text as character ids."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from depthlr.data.text import load_text
from depthlr.errors import DepthlrError


def test_the_ids_spell_the_text(tmp_path):
    (tmp_path / "input.txt").write_text("to be, or not to be")
    data = load_text(tmp_path, context=4)
    assert "".join(data.characters[i] for i in data.ids) == "to be, or not to be"
    assert (data.input, len(data), data.ids.dtype) == (f"ids:4:{len(data.characters)}", 15, torch.uint8)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=2, max_size=50))
@settings(max_examples=40)
def test_any_text_comes_back(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("text") / "input.txt"
    path.write_bytes(text.encode())
    data = load_text(path, context=1)
    assert "".join(data.characters[i] for i in data.ids) == text
    assert list(data.characters) == sorted(set(text))


def test_more_than_256_characters_take_four_bytes(tmp_path):
    (tmp_path / "input.txt").write_text("".join(map(chr, range(0x4E00, 0x4E00 + 300))))
    data = load_text(tmp_path, context=8)
    inputs, targets = data.batch(torch.tensor([0, 291]))
    assert data.ids.dtype == torch.int32
    assert inputs[1].tolist() == list(range(291, 299))
    assert targets[1].tolist() == list(range(292, 300))


def test_a_changed_text_is_refused(tmp_path):
    (tmp_path / "input.txt").write_text("a" * 200)
    load_text(tmp_path)
    (tmp_path / "input.txt").write_text("b" * 200)
    with pytest.raises(DepthlrError, match=r"input\.txt has sha256"):
        load_text(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "input.txt").write_bytes(b"ab\xff")
    with pytest.raises(DepthlrError, match=r"no UTF-8 text.* in position 2"):
        load_text(tmp_path)


@pytest.mark.parametrize("names", [[], ["a.txt", "b.txt"]])
def test_the_text_must_be_plain_to_find(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("hello")
    with pytest.raises(DepthlrError, match=f"holds {len(names)} .txt files"):
        load_text(tmp_path)


def test_a_text_shorter_than_its_context_is_refused_and_not_remembered(tmp_path):
    (tmp_path / "input.txt").write_text("short")
    with pytest.raises(DepthlrError, match="The context of text is 128: give a whole number of at most 4"):
        load_text(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["input.txt"]


def test_an_empty_text_is_refused(tmp_path):
    (tmp_path / "input.txt").write_text("")
    with pytest.raises(DepthlrError, match="The context of text is 128"):
        load_text(tmp_path)
