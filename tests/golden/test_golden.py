"""Commands print what they printed when the golden files were written (`python -m tests.golden.make`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.golden.make import COMMANDS, FOLDER, inputs, output, printed

NUMBER = re.compile(r"(-?\d+\.?\d*(?:e[-+]?\d+)?)")
# Matrix products differ between processors in their last digits.
MEASURED = ("measure", "suggest", "check", "transfer-measured", "transfer-am-mup")


def assert_same(text: str, golden: str, tolerance: float) -> None:
    """The same words, and the same numbers within a relative tolerance."""
    ours, theirs = NUMBER.split(text), NUMBER.split(golden)
    assert ours[::2] == theirs[::2]
    assert list(map(float, ours[1::2])) == pytest.approx(list(map(float, theirs[1::2])), rel=tolerance, abs=1e-12)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_the_golden_file(name: str, tmp_path: Path) -> None:
    with inputs(tmp_path):
        text = output(name)
    assert_same(text, (FOLDER / name).read_text("utf-8"), 1e-3 if name.startswith(MEASURED) else 1e-9)


def test_a_sweep_trained_again_gives_the_golden_table(tmp_path: Path) -> None:
    with inputs(tmp_path):
        printed("sweep", "study.toml", "--out", "again.sqlite")
        table = printed("export", "again.sqlite")
    assert_same(table, (FOLDER / "export.csv").read_text("utf-8"), 1e-3)


def test_other_words_or_numbers_are_not_the_same() -> None:
    assert_same("rate 0.1 at 1e-3", "rate 0.10001 at 0.001", 1e-3)
    for other in ("rate 0.2", "loss 0.1", "rate 0.1 of 1", "rate -0.1"):
        with pytest.raises(AssertionError):
            assert_same("rate 0.1", other, 1e-3)
