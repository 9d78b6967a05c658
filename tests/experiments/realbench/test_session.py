"""A call does what is next, ends in time, and brings back what was finished until then."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from tests.experiments.realbench.tiny import write_sweep

from experiments.realbench import session
from experiments.realbench.archive import unpack
from experiments.realbench.kept import read_facts
from experiments.realbench.plan import MINUTES, part_named, pending
from experiments.realbench.session import Folders, run_next

# A job copies a table that lies ready: no torch, for it would take seconds to import.
WRITES = """
import shutil, sys
for suffix in (".csv", ".json"):
    shutil.copy(sys.argv[1] + suffix, sys.argv[2])
"""
WAITS = WRITES + "import signal\nsignal.signal(signal.SIGINT, lambda *_: sys.exit())\nsignal.pause()\n"
DEAF = WRITES + "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: signal.pause()\n"
FAILS = "raise SystemExit('no such data')"


@pytest.fixture
def folders(tmp_path):
    return Folders(tmp_path, tmp_path / "results", tmp_path / "work", tmp_path / "a.tar.gz")


@pytest.fixture
def programs(monkeypatch, folders):
    """What each job does, by name; the others write a finished table."""
    chosen: dict[str, str] = {}

    for name in judged():
        for state in ("whole", "part"):
            write_sweep(folders.data / state, name, {2: -3.0}, complete=state == "whole")

    def command_of(job, *_):
        program = chosen.get(job.name, WRITES)
        ready = folders.data / ("whole" if program is WRITES else "part") / job.name
        return [sys.executable, "-S", "-c", program, str(ready), str(folders.tables)]

    monkeypatch.setattr(session, "command_of", command_of)
    monkeypatch.setattr(session, "PATIENCE", 3.0)
    return chosen


def call(folders, seconds=60.0, **options):
    return run_next(folders, seconds, options.pop("at_once", 2), parts=["judged"], **options)


def judged() -> list[str]:
    return [job.name for job in part_named("judged").jobs(Path())]


def test_everything_that_is_next_is_done_and_packed(folders, programs, capsys):
    assert call(folders, at_once=4) == []
    assert pending(folders.tables, ["judged"]) == []
    assert sorted(unpack(folders.archive, folders.results)) == sorted([*(f"{name}.csv" for name in judged()), MINUTES])
    assert pending(folders.results, ["judged"]) == []
    assert capsys.readouterr().out.count(": finished") == 10


def test_what_is_committed_is_not_done_again(folders, programs):
    write_sweep(folders.results, judged()[0], {2: -3.0})
    programs[judged()[0]] = FAILS
    assert call(folders) == []
    assert f"{judged()[0]}.csv" not in unpack(folders.archive, folders.results)


def test_a_job_that_fails_is_named_with_its_reason_and_keeps_no_other(folders, programs, capsys):
    programs[judged()[3]] = FAILS
    assert call(folders) == [judged()[3]]
    assert f"{judged()[3]} failed: no such data" in capsys.readouterr().out
    assert [job.name for _, job in pending(folders.tables, ["judged"])] == [judged()[3]]


def test_jobs_are_interrupted_when_the_time_is_up_and_their_tables_come_back(folders, programs, monkeypatch, capsys):
    monkeypatch.setattr(session, "LEAST", 0.0)
    monkeypatch.setattr(session, "MARGIN", 0.0)
    programs.update(dict.fromkeys(judged(), WAITS) | {judged()[1]: DEAF})
    until = 3.0
    while not {f"{name}.csv" for name in judged()[:2]} <= set(_unpacked(folders)):
        assert call(folders, seconds=until) == []
        until *= 2  # a busy machine needs longer to start Python
        assert until < 300
    assert "cut off" in capsys.readouterr().out
    assert not read_facts(folders.results / f"{judged()[0]}.csv")["complete"]


def _unpacked(folders):
    return unpack(folders.archive, folders.results) if folders.archive.is_file() else []


def test_the_seconds_of_a_call_are_shared_among_its_jobs(folders, programs):
    call(folders)
    with open(folders.tables / MINUTES, newline="") as file:
        rows = list(csv.DictReader(file))
    assert sorted(row["job"] for row in rows) == sorted(judged())
    assert {row["part"] for row in rows} == {"judged"}
    first = sum(float(row["seconds"]) for row in rows)
    call(folders)  # nothing is left to do
    with open(folders.tables / MINUTES, newline="") as file:
        assert sum(float(row["seconds"]) for row in csv.DictReader(file)) == pytest.approx(first)


def test_a_job_is_not_begun_that_cannot_end_a_run(folders, programs, capsys):
    write_sweep(folders.results, "gpt2-adamw-cosine", {2: -3.0})
    write_sweep(folders.results, "llama-muon-cosine", {2: -3.0})
    _stretch(folders.results / "gpt2-adamw-cosine.csv")
    call(folders, at_once=20)
    begun = capsys.readouterr().out
    assert "begun: gpt2-muon-cosine" in begun
    assert "begun: gpt2-adamw-wsd" not in begun


def _stretch(table: Path) -> None:
    """A run takes an hour."""
    table.write_text(table.read_text().replace(",1.00\n", ",3600.0\n"))


def test_the_command_of_a_job_is_one_of_the_command_line(folders):
    job = part_named("judged").jobs(Path())[0]
    command = session.command_of(job, folders, 100.0, "cpu", True)
    assert command[1:5] == ["-m", "experiments.realbench", "job", "gpt2-muon-cosine"]
    assert command[5:] == [
        *("--data", str(folders.data), "--work", str(folders.work), "--seconds", "100"),
        *("--device", "cpu", "--smoke"),
    ]
