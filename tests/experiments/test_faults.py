"""The short form of `make faults`, and its bookkeeping: it must notice what is lost."""

from __future__ import annotations

import sqlite3

import pytest

from depthlr.study import sweep
from experiments.faults.__main__ import SCENARIOS
from experiments.faults.scenario import Aftermath
from experiments.landscape import LandscapeExecutor
from experiments.one_machine import Unavailable


@pytest.mark.parametrize("name", [name for name, scenario in SCENARIOS.items() if scenario.short])
def test_nothing_is_lost_or_trained_twice_and_the_table_is_the_same(name: str, tmp_path) -> None:
    scenario = SCENARIOS[name]
    try:
        verdict = scenario.run(scenario.short, tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    assert verdict.passed, verdict
    assert verdict.says


def test_cells_that_are_lost_or_changed_are_noticed(tmp_path) -> None:
    after = Aftermath(tmp_path)
    path = tmp_path / "study.sqlite"
    sweep(after.given.study, LandscapeExecutor(after.given), path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM cells WHERE size = 3")
    connection.close()
    after.add(path, "deleted cells", reported=8)
    assert (after.lost, after.twice, after.wrong) == (4, 0, [])
    assert not after.verdict().passed
    after.expected += "another line"
    after.add(path, "nothing")
    assert after.wrong == ["nothing: another table"]
