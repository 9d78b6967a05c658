"""Tables travel in one file, and the fuller one always wins."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.experiments.realbench.tiny import write_facts, write_sweep

from depthlr.errors import DepthlrError
from experiments.realbench.archive import merge, pack, unpack
from experiments.realbench.kept import read_facts
from experiments.realbench.plan import MINUTES

NAME = "gpt2-adamw-wsd"
HEAD = "started,part,job,seconds"


def partly(tables: Path, runs: int, name: str = NAME) -> Path:
    """A table that a sweep left after so many runs."""
    path = write_sweep(tables, name, {2: -3.0}, complete=False)
    path.write_text("\n".join(path.read_text().splitlines()[: runs + 1]) + "\n")
    write_facts(path, read_facts(path)["study"], runs, complete=False)
    return path


def test_tables_come_back_as_they_were_packed(tmp_path):
    made, kept = tmp_path / "made", tmp_path / "kept"
    partly(made, 7)
    write_sweep(made / "regret", "gpt2-muon-cosine", {2: -3.0})
    assert pack(made, kept, tmp_path / "a.tar.gz") == 2
    assert unpack(tmp_path / "a.tar.gz", kept) == [f"{NAME}.csv", "regret/gpt2-muon-cosine.csv"]
    for path in made.rglob("*.*"):
        assert (kept / path.relative_to(made)).read_bytes() == path.read_bytes()
    assert unpack(tmp_path / "a.tar.gz", kept) == []


def test_only_what_is_new_is_packed(tmp_path):
    made, kept = tmp_path / "made", tmp_path / "kept"
    for folder in (made, kept):
        partly(folder, 7)
    write_sweep(made, "gpt2-muon-cosine", {2: -3.0})
    partly(made, 0, "cct-adamw-cosine")
    assert pack(made, kept, tmp_path / "a.tar.gz") == 1
    with tarfile.open(tmp_path / "a.tar.gz") as packed:
        assert sorted(packed.getnames()) == ["gpt2-muon-cosine.csv", "gpt2-muon-cosine.json"]


@pytest.mark.parametrize(("runs", "there", "taken"), [(7, 5, True), (5, 5, False), (4, 5, False)])
def test_the_fuller_table_wins(tmp_path, runs, there, taken):
    partly(tmp_path / "new", runs)
    before = partly(tmp_path / "old", there).read_bytes()
    assert merge(tmp_path / "new", tmp_path / "old") == ([f"{NAME}.csv"] if taken else [])
    assert ((tmp_path / "old" / f"{NAME}.csv").read_bytes() == before) == (not taken)


def test_a_finished_table_is_never_replaced_by_an_unfinished_one(tmp_path):
    write_sweep(tmp_path / "old", NAME, {2: -3.0})
    path = partly(tmp_path / "new", 3)
    write_facts(path, read_facts(path)["study"], 10_000, complete=False)
    assert merge(tmp_path / "new", tmp_path / "old") == []
    assert merge(tmp_path / "old", tmp_path / "new") == [f"{NAME}.csv"]


def test_tables_of_two_studies_are_refused_and_nothing_is_taken(tmp_path):
    partly(tmp_path / "new", 3)
    write_sweep(tmp_path / "new", "bert-adamw-linear", {2: -3.0})
    write_facts(partly(tmp_path / "old", 1), "another", 1, complete=False)
    with pytest.raises(DepthlrError, match="different studies"):
        merge(tmp_path / "new", tmp_path / "old")
    assert not (tmp_path / "old" / "bert-adamw-linear.csv").exists()


def test_calls_are_added_once(tmp_path):
    for folder, lines in (("old", ["a,judged,x,1.0"]), ("new", ["a,judged,x,1.0", "b,judged,x,2.0"])):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / MINUTES).write_text("\n".join([HEAD, *lines]) + "\n")
    assert merge(tmp_path / "new", tmp_path / "old") == [MINUTES]
    assert (tmp_path / "old" / MINUTES).read_text() == f"{HEAD}\na,judged,x,1.0\nb,judged,x,2.0\n"
    assert merge(tmp_path / "new", tmp_path / "old") == []


def test_a_torn_archive_changes_nothing(tmp_path):
    partly(tmp_path / "made", 7)
    archive = tmp_path / "a.tar.gz"
    pack(tmp_path / "made", tmp_path / "kept", archive)
    archive.write_bytes(archive.read_bytes()[:-40])
    with pytest.raises(DepthlrError, match="no archive of tables"):
        unpack(archive, tmp_path / "kept")
    assert not list((tmp_path / "kept").rglob("*.csv"))


def test_what_was_superseded_stays_out(tmp_path):
    write_sweep(tmp_path / "made" / "superseded", NAME, {2: -3.0})
    assert merge(tmp_path / "made", tmp_path / "kept") == []
