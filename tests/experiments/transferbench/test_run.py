"""Oracles, measures and table on tiny tasks: resumable, rebuilt alike, and blind to the test split unless asked."""

import json
import re
import shutil
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from tests.experiments.transferbench.tiny import tiny_task
from typer.testing import CliRunner

from depthlr.energy.batches import GRADIENT_BATCHES
from depthlr.energy.persistent import persistent_energy
from depthlr.errors import DepthlrError
from depthlr.transfer.suggest import suggest_rate
from experiments.pages import put
from experiments.running import Deadline
from experiments.transferbench import __main__ as command
from experiments.transferbench import measuring
from experiments.transferbench.known import read_measured, read_oracle
from experiments.transferbench.measuring import PARTS, Models, measure_task
from experiments.transferbench.rules import RULES, SUGGESTION
from experiments.transferbench.scores import Known
from experiments.transferbench.sweeping import sweep_task
from experiments.transferbench.table import comparison

MULTIPLIED = "experiments.transferbench.parametrised:resnet?width=4&inputs=1&power=0.5"
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
            if task.twin:
                continue  # its peer counts depth, and measures nothing
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


def test_an_unfinished_sweep_of_another_precision_is_refused_and_keeps_its_table(results, tmp_path):
    for file in results.glob("plain.*"):
        shutil.copy(file, tmp_path)
    facts = json.loads((tmp_path / "plain.json").read_text()) | {"complete": False}
    (tmp_path / "plain.json").write_text(json.dumps(facts))
    with pytest.raises(DepthlrError, match=r"holds another study .*fp32 -> bf16"):
        sweep_task(TASKS[0], "bf16", data=results, work=tmp_path, out=tmp_path, until=Deadline(), workers=1)
    assert json.loads((tmp_path / "plain.json").read_text()) == facts
    assert (tmp_path / "plain.csv").read_bytes() == (results / "plain.csv").read_bytes()


def test_a_finished_oracle_of_another_precision_is_not_written_over(results, tmp_path):
    for file in results.glob("plain.*"):
        if "sqlite" not in file.name:
            shutil.copy(file, tmp_path)
    before = (tmp_path / "plain.csv").read_bytes()
    with pytest.raises(DepthlrError, match=r"is finished, and of another sweep .*fp32 -> bf16"):
        sweep_task(TASKS[0], "bf16", data=results, work=tmp_path / "new", out=tmp_path, until=Deadline(), workers=1)
    assert (tmp_path / "plain.csv").read_bytes() == before


def test_suggestions_are_those_of_the_library(results):
    models = Models(TASKS[1], 2, TASKS[1].examples(results))
    known = Known("adaptive", read_oracle(TASKS[1], results), read_measured(TASKS[1], results))
    for seed, alone in enumerate(known.each_draw()):
        batches = models.batches(seed, GRADIENT_BATCHES + 1)
        true = suggest_rate(models.fresh(seed), batches, models.loss_fn, "adam").rate
        assert 10 ** RULES[SUGGESTION].level(alone.measured[2]) == pytest.approx(true, rel=1e-3)


def test_measures_hold_every_size_and_seed(results):
    found = read_measured(TASKS[0], results)
    assert found is not None
    assert {size: one.depth for size, one in found.items()} == {1: 3, 2: 4, 4: 6}
    assert all(len(one.steps) == len(one.persistent) == 2 and not one.lacks for one in found.values())
    assert len(found[4].steps[0].hidden) == 5
    assert json.loads((results / "plain.persistent.json").read_text())["sizes"] == [1, 2, 4]


def test_measures_of_another_task_are_refused(results):
    task = TASKS[0]
    other = replace(task, study=replace(task.study, training=replace(task.study.training, batch=9)))
    with pytest.raises(DepthlrError, match="another task than plain"):
        read_measured(other, results)
    with pytest.raises(DepthlrError, match="another task than plain"):
        measure_task(other, data=results, out=results, until=Deadline())


def test_persistent_energies_are_those_of_the_library(results):
    models = Models(TASKS[1], 2, TASKS[1].examples(results))
    found = read_measured(TASKS[1], results)[2].persistent
    for seed, draw in enumerate(found):
        batches = models.batches(seed, GRADIENT_BATCHES + 1)
        true = persistent_energy(models.fresh(seed), batches, models.loss_fn, "adam")
        assert astuple(draw.found) == pytest.approx(astuple(true), rel=1e-4)


def test_measuring_goes_on_with_what_is_missing_alone(results, tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "SEEDS", range(2))
    for file in results.glob("plain.*"):
        shutil.copy(file, tmp_path)
    lost, cut = tmp_path / "plain.persistent.csv", tmp_path / "plain.units.csv"
    lost.unlink()
    cut.write_text("".join(line for line in cut.read_text().splitlines(True) if not line.startswith("4,")))
    ran = []

    def spied(kinds):
        return lambda models: ran.append((models.size, kinds[-1])) or PARTS[kinds](models)

    monkeypatch.setattr(measuring, "PARTS", {kinds: spied(kinds) for kinds in PARTS})
    assert measure_task(TASKS[0], data=tmp_path, out=tmp_path, until=Deadline())
    assert ran == [(1, "persistent"), (2, "persistent"), (4, "measures"), (4, "persistent")]
    before, after = (read_measured(TASKS[0], folder) for folder in (results, tmp_path))
    assert [draw.found for draw in after[4].persistent] == [draw.found for draw in before[4].persistent]
    assert [step.readout for step in after[4].steps] == [step.readout for step in before[4].steps]


def test_a_rule_stays_silent_on_a_task_that_lacks_its_measures(results, tmp_path):
    for file in results.glob("*.*"):
        shutil.copy(file, tmp_path)
    (tmp_path / "plain.persistent.csv").unlink()
    (tmp_path / "adaptive.ranges.csv").unlink()
    text = comparison(TASKS, "dev", RULES, "measured", tmp_path)
    assert "| copy | 2 | 12 |" in text
    assert "| **measured** | 1 |" in text
    assert "| range test (Lightning) | 1 |" in text
    assert "Missing from dev: plain (persistent energy), adaptive (range tests)." in text


def test_every_measurement_starts_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "SEEDS", range(2))
    task = tiny_task("normed", spec="resnet?width=4&batch_norm=true")
    models = Models(task, 1, task.examples(tmp_path))
    before = {name: value.clone() for name, value in models.fresh(1).state_dict().items()}
    for part in PARTS.values():
        part(models)
        after = models.fresh(1).state_dict()
        assert all(after[name].equal(value) for name, value in before.items())


def test_the_table_is_rebuilt_alike_and_says_what_is_missing(results):
    first = comparison(TASKS, "dev", RULES, "relative energy", results)
    assert first == comparison(TASKS, "dev", RULES, "relative energy", results)
    assert "| copy | 2 | 12 |" in first
    assert "| depth-mup | 1 |" in first
    assert re.search(r"On the 1 tasks of dev with a twin, the error of depth-mup is 0\.\d+ .* relative energy ", first)
    assert "No task of dev is missing." in first
    more = (*TASKS, replace(TASKS[0], name="later"))
    assert "Missing from dev: later (oracle)." in comparison(more, "dev", RULES, "relative energy", results)


@pytest.mark.parametrize("split", ["dev", "first", "test"])
def test_the_committed_page_is_what_the_command_writes(split, tmp_path):
    root = Path(__file__).parents[3]
    committed = (root / "docs" / "transferbench.md").read_text()
    page = tmp_path / "page.md"
    page.write_text(committed)
    options = ["table", "--split", split, "--results", str(root / "results" / "transferbench"), "--page", str(page)]
    options += ["--final"] * (split == "test")
    assert CliRunner().invoke(command.app, options).exit_code == 0
    assert page.read_text() == committed


def test_the_test_split_stays_hidden(results, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "TASKS", TASKS)
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- dev -->\n<!-- /dev -->\nafter\n")
    options = ["table", "--results", str(results), "--page", str(page)]
    refused = {(): "--final", ("--final",): "hidden .* missing", ("--final", "--candidates"): "leave out"}
    for more, reason in refused.items():
        run = CliRunner().invoke(command.app, [*options, "--split", "test", *more])
        assert isinstance(run.exception, DepthlrError)
        assert re.search(reason, str(run.exception))
        assert not run.output
    plot = tmp_path / "plot.png"
    run = CliRunner().invoke(command.app, [*options, "--split", "dev", "--plot", str(plot)])
    assert plot.read_bytes().startswith(b"\x89PNG")
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
