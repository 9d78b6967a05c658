"""A short round of every reader's fuzzing, and the fuzzing itself: it must find what it looks for."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import strategies as st

from depthlr.errors import DepthlrError
from experiments.fuzz.__main__ import EVERY, fuzz
from experiments.fuzz.inputs import edit
from experiments.fuzz.readers import Reader, refused_in_a_sentence


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", EVERY)
def test_a_reader_reads_or_refuses_whatever_it_gets(name: str) -> None:
    found = fuzz(EVERY[name], 0)
    assert found.inputs > 0
    assert found.crashes == {}


def test_a_crash_is_found_and_a_documented_error_is_none() -> None:
    def read(number: int) -> None:
        if number == 0:
            raise DepthlrError("no zeros")
        if number == 1:
            raise KeyError(number)

    check = lambda number, folder: refused_in_a_sentence(lambda: read(number))  # noqa: E731
    found = fuzz(Reader("numbers", lambda: st.integers(0, 3), check), 0)
    assert [place.partition(" at")[0] for place in found.crashes] == ["KeyError"]


def test_an_edit_changes_a_sample_and_no_edit_leaves_it() -> None:
    sample = bytes(range(200))
    assert edit(sample, 0, Random(0), [sample], []) == sample
    assert len({edit(sample, 3, Random(seed), [sample], [b"token"]) for seed in range(50)}) > 40
