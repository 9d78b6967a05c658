"""What ran a sweep is kept with it, in order, and changes nothing else."""

from __future__ import annotations

import json
import platform
import sqlite3
from dataclasses import replace

import pytest
import torch

import depthlr
from depthlr.study import (
    Environment,
    SweepInterrupted,
    current_environment,
    open_store,
    read_results,
    read_store,
    sweep,
    to_csv,
    to_json,
)
from experiments.landscape import LandscapeExecutor, landscape, study

STUDY = study(sizes=(3, 6), points=20, seeds=2)
GIVEN = landscape(1, STUDY)
LAPTOP = Environment("CPU, 8 cores", "2.13.0", "0.1.0", "3.11.7")
SERVER = Environment("NVIDIA H200", "2.11.0", "0.1.0", "3.12.3")


class Stopping(LandscapeExecutor):
    """Ctrl-C after so many cells."""

    cells = 0

    def run(self, cell):
        if not Stopping.cells:
            raise KeyboardInterrupt
        Stopping.cells -= 1
        return super().run(cell)


def run(path, where, cells=10**6):
    Stopping.cells = cells
    return sweep(STUDY, Stopping(GIVEN), path, environment=where)


def test_this_process_is_described_by_its_device_and_versions(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    here = current_environment()
    assert (here.torch, here.depthlr, here.python) == (
        torch.__version__,
        depthlr.__version__,
        platform.python_version(),
    )
    assert here.device.startswith("CPU, ")
    assert "core" in here.device
    assert str(SERVER) == "NVIDIA H200 (torch 2.11.0, depthlr 0.1.0, Python 3.12.3)"


def test_cores_are_counted_where_the_system_does_not_say_which_are_ours(monkeypatch):
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 12)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert current_environment().device == "CPU, 12 cores"


def test_a_gpu_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card of {device}")
    assert current_environment().device == "card of cuda"


def test_a_sweep_records_where_it_ran(tmp_path):
    assert run(tmp_path / "s.sqlite", None).environments == (current_environment(),)
    assert run(tmp_path / "t.sqlite", SERVER).environments == (SERVER,)
    assert read_results(tmp_path / "t.sqlite").environments == (SERVER,)


def test_a_sweep_resumed_elsewhere_adds_to_the_list_and_a_known_place_is_not_added_twice(tmp_path):
    path = tmp_path / "s.sqlite"
    for where, cells in ((LAPTOP, 3), (SERVER, 4), (LAPTOP, 5)):
        with pytest.raises(SweepInterrupted):
            run(path, where, cells)
    assert read_results(path).environments == (LAPTOP, SERVER)
    assert run(path, SERVER).complete
    assert read_results(path).environments == (LAPTOP, SERVER)


def test_a_finished_sweep_that_is_looked_at_elsewhere_did_not_run_there(tmp_path):
    run(tmp_path / "s.sqlite", SERVER)
    assert run(tmp_path / "s.sqlite", LAPTOP).environments == (SERVER,)


def test_neither_the_digest_nor_a_table_knows_where_it_ran(tmp_path):
    path = tmp_path / "moved.sqlite"
    with pytest.raises(SweepInterrupted):
        run(path, LAPTOP, 7)
    moved, quiet = run(path, SERVER), run(tmp_path / "quiet.sqlite", LAPTOP)
    assert moved.environments != quiet.environments
    assert moved.study.digest == quiet.study.digest == STUDY.digest
    assert to_csv(moved) == to_csv(quiet)
    assert to_json(moved) == to_json(quiet)


def test_a_file_from_before_the_fact_was_kept_still_reads_and_goes_on(tmp_path):
    path = tmp_path / "old.sqlite"
    with pytest.raises(SweepInterrupted):
        run(path, LAPTOP, 7)
    change(path, "DELETE FROM facts WHERE name = 'environments'")
    as_before_digests(path)
    assert read_store(path).environments == ()
    assert read_results(path).environments == ()
    assert run(path, SERVER).environments == (SERVER,)


def test_what_a_newer_depthlr_adds_to_it_is_kept_and_not_stumbled_over(tmp_path):
    path = tmp_path / "new.sqlite"
    with open_store(path, STUDY) as store:
        store.record_environment(LAPTOP)
    change(path, "UPDATE facts SET value = ? WHERE name = 'environments'", json.dumps([{"device": "TPU", "jax": "1"}]))
    as_before_digests(path)
    assert read_results(path).environments == (Environment("TPU", "unknown", "unknown", "unknown"),)
    with open_store(path, STUDY) as store:
        store.record_environment(LAPTOP)
    assert read_results(path).environments[1] == LAPTOP


def test_results_that_differ_in_it_alone_are_not_equal(tmp_path):
    results = run(tmp_path / "s.sqlite", SERVER)
    assert replace(results, environments=(LAPTOP,)) != results
    assert replace(results, environments=(SERVER,)) == results


def as_before_digests(path):
    change(path, "DELETE FROM facts WHERE name = 'sha256'")
    change(path, "PRAGMA user_version = 1")


def change(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()
