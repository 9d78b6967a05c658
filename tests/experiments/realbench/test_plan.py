"""The plan is consistent, knows what is finished, and gives nothing of the judged half away."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import get_args

import pytest
from tests.experiments.realbench.tiny import write_facts, write_rows, write_sweep
from typer.testing import CliRunner

from depthlr.errors import DepthlrError
from experiments.realbench.__main__ import app
from experiments.realbench.jobs import job_named
from experiments.realbench.kept import COLUMNS
from experiments.realbench.plan import (
    AXES,
    CELLS,
    GAIN,
    HORIZON,
    LIKE,
    MINUTES,
    PARTS,
    TWINS,
    Job,
    Kind,
    is_judged_half_finished,
    names,
    part_named,
    pending,
    plan_table,
    run_seconds,
    spent,
    third_seeds,
)
from experiments.realbench.recipes import RECIPES, recipe_named, smoked

RESULTS = Path(__file__).parents[3] / "results" / "realbench"
JOBS = [job for part in PARTS for job in part.jobs(RESULTS)]
SIZES = {"resnet": (1, 2, 4, 8), "convnext": (1, 2, 4, 8)}


def sweep_all(tables: Path, half: str, scatter: float = 0.001) -> None:
    for place, name in enumerate(names(half)):
        sizes = recipe_named(name).study.model.sizes
        write_sweep(tables, name, dict.fromkeys(sizes, -2.9 - 0.01 * place), scatter=scatter)


def test_every_table_has_one_job_and_every_need_is_some_jobs_table():
    tables = [job.table for job in JOBS]
    shared = {table for table in tables if tables.count(table) > 1}
    assert shared == set()
    assert {need for job in JOBS for need in job.needs} <= set(tables)
    assert all(job_named(job.name, RESULTS).table == job.table for job in JOBS)
    with pytest.raises(DepthlrError, match="no job"):
        job_named("nobody", RESULTS)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_a_job_takes_time_and_a_committed_table_is_of_its_study(job):
    assert job.expected(RESULTS) > 0
    assert 0 < job.longest(RESULTS) < 560 / 1.25  # a call can begin it
    facts = RESULTS / Path(job.table).with_suffix(".json")
    if facts.is_file():
        assert json.loads(facts.read_text())["study"] == job.recipe.study.digest


def test_the_plan_covers_what_was_asked():
    assert set(LIKE) == set(names("judged"))
    assert len(TWINS) == 3
    assert len(HORIZON) == len(AXES) == 2
    design = {recipe.name for recipe in RECIPES if recipe.split == "design"}
    assert {*HORIZON, *AXES, *TWINS} <= design  # so nothing of the judged half is seen by them
    steps = {job.recipe.study.training.run_steps for job in part_named("horizon").jobs(RESULTS)}
    assert steps == {300, 1_500, 8_000}
    assert len(part_named("factors").jobs(RESULTS)) == 14  # 2 x 8 sweeps, of which the horizon has two


def test_a_job_waits_for_its_needs(tmp_path):
    assert [job.name for _, job in pending(tmp_path, ["horizon"])] == [
        "gpt2-adamw-cosine+seeds0+steps300",
        "resnet-momentum-cosine+seeds0+steps300",
        "gpt2-adamw-cosine+seeds0+steps1500",
        "resnet-momentum-cosine+seeds0+steps1500",
    ]
    write_sweep(tmp_path, "gpt2-adamw-cosine?seeds=0&steps=1500", {2: -3.0})
    write_sweep(tmp_path, "gpt2-adamw-cosine?seeds=0&steps=300", {2: -3.0}, complete=False)
    ready = [job.name for _, job in pending(tmp_path, ["horizon"])]
    assert "gpt2-adamw-cosine+seeds0+steps1500" not in ready
    assert {"gpt2-adamw-cosine+seeds0+steps300", "gpt2-adamw-cosine+seeds0+sizes16+steps8000"} <= set(ready)
    assert "resnet-momentum-cosine+seeds0+sizes8+steps8000" not in ready


def test_seconds_follow_the_tables_of_the_like():
    base = run_seconds(recipe_named("gpt2-adamw-cosine"), 16, RESULTS)
    assert run_seconds(recipe_named("gpt2-adamw-wsd"), 16, RESULTS) == pytest.approx(base)
    assert run_seconds(recipe_named("gpt2-adamw-cosine?steps=2400&batch=64"), 16, RESULTS) == pytest.approx(4 * base)
    assert run_seconds(recipe_named("gpt2-adamw-cosine?width=512"), 16, RESULTS) == pytest.approx(4 * base)


def test_third_seeds_are_decided_when_all_ten_are_tuned(tmp_path):
    sweep_all(tmp_path, "judged")
    assert third_seeds(tmp_path) == []
    assert is_judged_half_finished(tmp_path)
    noisy = "mixer-adamw-cosine"
    write_sweep(tmp_path, noisy, dict.fromkeys((2, 4, 8, 16), -3.0), scatter=0.1)
    assert [job.name for job in third_seeds(tmp_path)] == [f"{noisy}+seeds2"]
    assert not is_judged_half_finished(tmp_path)
    regrets = [job for _, job in pending(tmp_path, ["regret"])]
    assert regrets == []  # the rates are not final yet
    write_sweep(tmp_path, f"{noisy}?seeds=2", dict.fromkeys((2, 4, 8, 16), -3.0), seeds=(2,))
    assert is_judged_half_finished(tmp_path)
    assert [job.name for job in third_seeds(tmp_path)] == [f"{noisy}+seeds2"]  # the decision stands
    assert len(pending(tmp_path, ["regret"])) == 10
    facts = tmp_path / "cct-adamw-cosine.json"
    facts.write_text(facts.read_text().replace('"complete": true', '"complete": false'))
    assert third_seeds(tmp_path) == []
    assert not is_judged_half_finished(tmp_path)


@pytest.mark.parametrize("command", ["judge", "table", "readings"])
def test_nothing_of_the_judged_half_is_read_before_it_is_finished(tmp_path, command):
    sweep_all(tmp_path, "judged")
    facts = tmp_path / "cct-adamw-cosine.json"
    facts.write_text(facts.read_text().replace('"complete": true', '"complete": false'))
    arguments = [command, "--results", str(tmp_path)]
    if command != "judge":
        arguments += ["--only", "gpt2-muon-cosine", "--only", "gpt2-adamw-wsd"]
    if command == "readings":
        arguments += ["--data", str(tmp_path)]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code
    assert "not finished, and is read once" in str(found.exception)
    assert found.stdout == ""


def test_a_recipe_whose_validation_loss_rises_at_the_end_is_to_be_replaced(tmp_path):
    sweep_all(tmp_path, "judged")
    assert is_judged_half_finished(tmp_path)
    table = tmp_path / "cct-adamw-cosine.csv"
    with open(table, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        if row["size"] == "8":
            row["validation_75"] = 0.9 * float(row["validation"])
    write_rows(table, rows, COLUMNS)
    assert not is_judged_half_finished(tmp_path)
    assert pending(tmp_path, ["regret"]) == []
    found = CliRunner().invoke(app, ["rising", "--results", str(tmp_path)])
    assert "cct-adamw-cosine: rises at size 8, replace it\n" in found.stdout
    assert found.stdout.count("does not rise\n") == 9
    judged = CliRunner().invoke(app, ["judge", "--results", str(tmp_path)])
    assert "not finished" in str(judged.exception)


def test_the_plan_says_of_unfinished_tables_how_many_runs_they_hold(tmp_path):
    sweep_all(tmp_path, "judged")
    facts = tmp_path / "cct-adamw-cosine.json"
    facts.write_text(facts.read_text().replace('"complete": true', '"complete": false'))
    text = plan_table(tmp_path)
    assert "| judged | judged recipes, tuned | 9 of 10 | 3280 |" in text
    other = tmp_path / "other"
    other.mkdir()
    for name in names("judged"):  # the same runs with other losses
        sizes = recipe_named(name).study.model.sizes
        write_sweep(other, name, dict.fromkeys(sizes, -2.0), least=7.0)
    (other / facts.name).write_text((other / facts.name).read_text().replace('"complete": true', '"complete": false'))
    assert plan_table(other) == text


def test_seconds_of_calls_add_up_by_part(tmp_path):
    (tmp_path / MINUTES).write_text("started,part,job,seconds\nnow,judged,a,10.5\nthen,judged,b,2\nthen,axes,c,4\n")
    assert spent(tmp_path) == {"judged": 12.5, "axes": 4.0}
    assert "| 12 |" in plan_table(tmp_path).split("| judged |")[1].splitlines()[0]


def test_a_table_of_readings_needs_no_facts(tmp_path):
    job = part_named("readings").jobs(tmp_path)[0]
    assert not job.is_finished(tmp_path)
    (tmp_path / "readings").mkdir()
    (tmp_path / job.table).write_text("size\n")
    assert job.is_finished(tmp_path)


def test_an_unfinished_table_says_how_far_it_is(tmp_path):
    job = job_named("measured/cct-adamw-cosine", tmp_path)
    assert job.state(tmp_path) == "ready"
    (tmp_path / "measured").mkdir()
    write_facts(tmp_path / job.table, job.recipe.study.digest, 3, complete=False)
    assert (job.runs(tmp_path), job.state(tmp_path)) == (3, "ready")
    write_facts(tmp_path / job.table, job.recipe.study.digest, 4)
    assert job.state(tmp_path) == "finished"


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_every_job_can_be_cut_short(job):
    study, short = job.recipe.study, smoked(job.recipe).study
    assert short.training.run_steps <= 4 < study.training.run_steps
    assert max(short.model.sizes) <= 4
    assert short.search.points == 3
    assert smoked(job.recipe).name == job.recipe.name
    base = smoked(recipe_named(job.recipe.name.partition("+")[0]))
    assert set(short.model.sizes) <= set(base.study.model.sizes)  # whose table a job may need


def test_runs_that_a_table_holds_are_not_expected_again(tmp_path):
    job = Job("sweep", "mixer-adamw-cosine")
    assert job.left(tmp_path) == job.expected(tmp_path)
    rows = "".join(f"2,0,0.{place + 10},1.0\n" for place in range(CELLS))
    (tmp_path / job.table).write_text(f"size,seed,rate,seconds\n{rows}")
    without = job.expected(tmp_path) - CELLS * run_seconds(job.recipe, 2, tmp_path) / GAIN
    assert job.left(tmp_path) == pytest.approx(without)
    for kind in get_args(Kind):  # also of tables that have other columns
        assert Job(kind, job.variant).left(tmp_path) >= 0
