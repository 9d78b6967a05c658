"""Oracles, measures and table on tiny tasks: resumable, rebuilt alike, and blind to the test split unless asked."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.transferbench import app as command
from benchmarks.transferbench import measuring
from benchmarks.transferbench.measured import read_measured
from benchmarks.transferbench.measuring import measure_task
from benchmarks.transferbench.oracle import read_oracle
from benchmarks.transferbench.page import put
from benchmarks.transferbench.rules import RULES
from benchmarks.transferbench.sweeping import sweep_task
from benchmarks.transferbench.table import comparison
from tests.transferbench.tiny import tiny_task
from typer.testing import CliRunner

from depthlr.errors import DepthlrError
from depthlr.recipes.running.deadline import Deadline

MULTIPLIED = "benchmarks.transferbench.parametrised:resnet?width=4&inputs=1&power=0.5"
TASKS = (
    tiny_task("plain"),
    tiny_task("adaptive", optimizer="adam"),
    tiny_task("plain-depth-mup", "peers", MULTIPLIED, twin="plain", rule="depth-mup"),
    tiny_task("hidden", "test"),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The first three tasks, swept and measured."""
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "SEEDS", range(2))
        patch.setattr(measuring, "RANGE_SEEDS", range(1))
        for task in TASKS[:3]:
            spent = Deadline.after(0)
            assert not sweep_task(task, "fp32", data=folder, work=folder, out=folder, until=spent, workers=1)
            until = Deadline()
            assert sweep_task(task, "fp32", data=folder, work=folder, out=folder, until=until, workers=1)
            assert not measure_task(task, data=folder, out=folder, until=spent)
            assert measure_task(task, data=folder, out=folder, until=until)
    return folder


def test_oracles_say_how_they_were_made(results):
    facts = json.loads((results / "plain.json").read_text())
    assert facts["complete"]
    assert facts["study"] == TASKS[0].study.to_dict()
    assert {"device", "precision", "versions", "data", "sweep_seconds"} <= set(facts)
    oracle = read_oracle(TASKS[0], results)
    assert oracle is not None
    assert {size: set(seeds) for size, seeds in oracle.curves.items()} == {1: {0, 1}, 2: {0, 1}, 4: {0, 1}}


def test_an_unfinished_sweep_is_no_oracle(results, tmp_path):
    for kind in ("csv", "json"):
        (tmp_path / f"plain.{kind}").write_text((results / f"plain.{kind}").read_text())
    assert read_oracle(TASKS[0], tmp_path) is not None
    facts = json.loads((tmp_path / "plain.json").read_text()) | {"complete": False}
    (tmp_path / "plain.json").write_text(json.dumps(facts))
    assert read_oracle(TASKS[0], tmp_path) is None


def test_a_finished_task_is_not_run_again(results):
    before = (results / "plain.csv").read_bytes()
    gone = results / "nowhere"
    assert sweep_task(TASKS[0], "fp32", data=gone, work=gone, out=results, until=Deadline())
    assert measure_task(TASKS[0], data=gone, out=results, until=Deadline())
    assert (results / "plain.csv").read_bytes() == before


def test_measures_hold_every_moment_and_seed(results):
    found = read_measured(TASKS[0], results)
    assert found is not None
    assert {size: one.depth for size, one in found.items()} == {1: 3, 2: 4, 4: 6}
    assert all(len(found[4].steps[moment]) == 2 for moment in ("first", "centred", "many", "many centred"))
    assert len(found[4].steps["first"][0].hidden) == 5


def test_the_table_is_rebuilt_alike_and_says_what_is_missing(results):
    first = comparison(TASKS, "dev", RULES, "relative energy", results)
    assert first == comparison(TASKS, "dev", RULES, "relative energy", results)
    assert "| copy | 2 | 12 |" in first
    assert "| depth-mup | 1 |" in first
    assert "No task of dev is missing." in first
    more = (*TASKS, replace(TASKS[0], name="later"))
    assert "Missing from dev: later (oracle)." in comparison(more, "dev", RULES, "relative energy", results)


def test_the_committed_page_is_what_the_command_writes(tmp_path):
    root = Path(__file__).parents[2]
    committed = (root / "docs" / "transferbench.md").read_text()
    page = tmp_path / "page.md"
    page.write_text(committed)
    options = ["table", "--split", "dev", "--results", str(root / "results" / "transferbench"), "--page", str(page)]
    assert CliRunner().invoke(command.app, options).exit_code == 0
    assert page.read_text() == committed


def test_the_test_split_stays_hidden(results, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "TASKS", TASKS)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- dev -->\n<!-- /dev -->\nafter\n")
    options = ["table", "--results", str(results), "--page", str(page)]
    for more in (["--split", "test"], ["--split", "test", "--final"]):
        run = CliRunner().invoke(command.app, [*options, *more])
        assert isinstance(run.exception, DepthlrError)
        assert not run.output
    run = CliRunner().invoke(command.app, [*options, "--split", "dev"])
    assert run.exit_code == 0
    assert run.output.strip() in page.read_text()
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("<!-- /dev -->\nafter\n")


def test_an_unknown_task_or_place_is_named(tmp_path):
    with pytest.raises(DepthlrError, match="did you mean"):
        command.chosen(TASKS, ["plane"], "dev")
    page = tmp_path / "page.md"
    page.write_text("nothing")
    with pytest.raises(DepthlrError, match="<!-- dev -->"):
        put(page, "dev", "text")
