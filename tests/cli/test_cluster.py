"""`depthlr sweep --on`: what a command line says becomes an executor, or one sentence."""

from __future__ import annotations

import importlib.util

import pytest

from depthlr.study.results import read_results
from depthlr.training import Task
from depthlr.training.serial import SerialExecutor

STUDY = {
    "--model": "mlp?width=4",
    "--sizes": "1,2",
    "--steps": "3",
    "--seeds": "1",
    "--search": "grid",
    "--points": "4",
}
SWEEP = ["sweep", *(word for option in STUDY.items() for word in option), "--out", "study.sqlite"]


@pytest.fixture
def run(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return run


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--on", "kubernetes"], "--on is 'kubernetes'"),
        (["--on", "slurm", "--job", "timeout_min"], "--job timeout_min: write key=value"),
    ],
)
def test_a_wrong_option_is_one_sentence(run, options, sentence: str) -> None:
    code, out, err = run(*SWEEP, *options)
    assert (code, out) == (2, "")
    assert sentence in err


def test_a_command_is_not_sent_to_a_cluster(run) -> None:
    code, _, err = run("sweep", "--command", "true {rate} {size} {seed}", "--sizes", "1,2", "--on", "ray")
    assert code == 2
    assert "for a command, use depthlr ask and tell" in err


@pytest.mark.parametrize(("options", "tried"), [([], 1), (["--on", "slurm"], 0)])
def test_one_step_is_tried_where_cells_train_and_not_on_the_machine_that_submits(
    run, monkeypatch, options, tried: int
) -> None:
    steps: list[Task] = []
    monkeypatch.setattr("depthlr.study.tasks.try_step", steps.append)
    monkeypatch.setattr("depthlr.cli.sweep.open_cluster", lambda make_task, *_, **options: SerialExecutor(make_task))
    assert run(*SWEEP, "--workers", "1", *options)[0] == 0
    assert len(steps) == tried


@pytest.mark.parametrize("library", [("ray", "ray"), ("slurm", "submitit")], ids=lambda pair: pair[0])
def test_a_missing_library_says_what_to_install(run, library) -> None:
    on, module = library
    if importlib.util.find_spec(module) is not None:
        pytest.skip(f"{module} is installed")
    code, _, err = run(*SWEEP, "--on", on)
    assert code == 2
    assert f"pip install 'depthlr[{on}]'" in err


@pytest.mark.parametrize(
    ("module", "options"),
    [("ray", ["--on", "ray", "--address", "local"]), ("submitit", ["--on", "slurm", "--job", "cluster=local"])],
)
def test_a_cluster_gives_the_same_table_as_this_machine(run, module: str, options) -> None:
    pytest.importorskip(module)
    assert run(*SWEEP, "--workers", "1")[0] == 0
    here = read_results("study.sqlite").rows()
    code, _, err = run(*SWEEP[:-1], "there.sqlite", *options, "--workers", "2")
    assert code == 0, err
    assert read_results("there.sqlite").rows() == here
