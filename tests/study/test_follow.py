"""A study's file followed while it is written: what is new is seen, what is foreign is waited out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from depthlr.errors import DepthlrError
from depthlr.study import Environment, open_store, read_results, read_snapshot
from depthlr.study.follow import Follower
from depthlr.study.record import Judge, make_record
from depthlr.training.cell import Cell, Outcome
from experiments.landscape import study

STUDY = study("grid", sizes=(3, 6), points=5)
HERE = Environment("CPU, 2 cores", "2.13.0", "0.1.0", "3.11.7")


def finished(rate: float):
    return make_record(Cell(3, 0, rate), Outcome(np.array([1.0], dtype=np.float32), 0.1, False), Judge("budget"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.sqlite"


def test_a_follower_reads_only_what_is_new_and_notices_another_study(path):
    follower = Follower(path)
    assert follower.read() is None
    versions = []
    with open_store(path, STUDY) as store:
        for rate in STUDY.search.rates[:3]:
            store.put(finished(rate))
            snapshot = follower.read()
            assert snapshot is not None
            assert snapshot.results == read_results(path)
            assert follower.read() is snapshot
            versions.append(snapshot.version)
    assert versions == sorted(set(versions))
    path.unlink()
    other = replace(STUDY, name="other", training=replace(STUDY.training, batch=7))
    with open_store(path, other):
        pass
    assert follower.read().results == read_results(path)


def test_a_snapshot_is_what_the_store_reads(path):
    with open_store(path, STUDY, data_digest="11", depths={3: 4, 6: 7}) as store:
        store.record_environment(HERE)
        store.put(finished(STUDY.search.rates[0]))
    snapshot = read_snapshot(path)
    assert snapshot.results == read_results(path)
    assert snapshot.results.environments == (HERE,)
    assert (snapshot.data_digest, snapshot.results.damaged) == ("11", ())


def test_a_new_environment_is_news(path):
    follower = Follower(path)
    with open_store(path, STUDY) as store:
        before = follower.read()
        store.record_environment(HERE)
        after = follower.read()
    assert (before.results.environments, after.results.environments) == ((), (HERE,))
    assert after.version > before.version


def test_what_is_no_study_is_waited_out_by_a_follower_and_refused_by_a_snapshot(path):
    path.write_text("not a database" * 100)
    assert Follower(path).read() is None
    with pytest.raises(DepthlrError, match="not a study of depthlr"):
        read_snapshot(path)
