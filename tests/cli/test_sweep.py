"""`depthlr sweep`, `fit` and `export` of a study: results on stdout, progress on stderr, and what a signal does."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from tests.present.made_results import results_of

import depthlr.cli.train_study as driver
from depthlr.cli.fit import fit_command
from depthlr.cli.report import export_command, plot_command
from depthlr.cli.sweep import _print, sweep_command
from depthlr.errors import DepthlrError
from depthlr.present.report import render_report
from depthlr.study import read_results, read_study
from depthlr.study.tasks import executor_for
from depthlr.training import Workers
from experiments.landscape import LandscapeExecutor, landscape

app = typer.Typer()
for name, command in {
    "sweep": sweep_command,
    "fit": fit_command,
    "export": export_command,
    "plot": plot_command,
}.items():
    app.command(name)(command)

STUDY = """
[model]
spec = "mlp?width=8"
vary = "layers"
sizes = [2, 3, 5]
[training]
steps = 2
[search]
points = 30
seeds = 2
"""


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Exit code, stdout and stderr of a verb, run in its own folder; `main` prints the DepthlrError of a bad input."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["/bin/depthlr", *arguments])
        code = app(arguments, standalone_mode=False)
        out, err = capsys.readouterr()
        return int(code or 0), out, err

    return run


@pytest.fixture(autouse=True)
def stop_after(monkeypatch):
    """Cells are read off a landscape; `stop["cells"]` of them in, `stop["how"]` is called, and at the end "closing"."""
    stop = {"cells": -1, "how": lambda: None, "closing": lambda: None}

    class Stopping(LandscapeExecutor):
        def run(self, cell):
            stop["cells"] -= 1
            if stop["cells"] == 0:
                stop["how"]()
            return super().run(cell)

    @contextmanager
    def stopping(study, examples, held_out, *, workers, limits, open_cluster):
        try:
            yield Stopping(landscape(1, study))
        finally:
            stop["closing"]()

    monkeypatch.setattr(driver, "executor_for", stopping)
    return stop


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY)
    return path


def test_a_sweep_prints_rates_and_slopes_and_keeps_the_study_beside_its_file(run, study):
    code, out, err = run("sweep", str(study))
    assert code == 0
    assert "over effective depth: slope -" in out
    assert "over layers: slope -" in out
    assert "cells to come" in err
    assert "cells are kept in" in err
    assert read_results(study.with_suffix(".sqlite")).depths == {2: 3, 3: 4, 5: 6}


def test_json_is_all_of_stdout(run, study):
    code, out, _ = run("sweep", str(study), "--json")
    found = json.loads(out)
    assert code == 0
    assert found["study"] == read_study(study).to_dict()
    assert len(found["optima"]) == 6
    assert set(found["fits"]) == {"depth", "layers"}
    assert found["fits"]["depth"]["slope"] < found["fits"]["layers"]["slope"] < 0
    assert found["cells"] == sum(optimum["cells"] for optimum in found["optima"])


def test_run_again_it_resumes_from_the_toml_or_from_its_own_file(run, study):
    run("sweep", str(study))
    for name in ("mine.toml", "mine.sqlite"):
        _, out, err = run("sweep", name, "--json")
        assert f"{json.loads(out)['cells']} cells are kept from before" in err
        assert "to come" not in err


def test_a_finished_sweep_starts_no_process(run, study, monkeypatch):
    run("sweep", str(study))
    monkeypatch.setattr(driver, "executor_for", executor_for)  # that of this machine
    monkeypatch.setattr(Workers, "_start", lambda pool: pytest.fail("started"))
    assert run("sweep", str(study), "--workers", "2")[0] == 0


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        (lambda: signal.raise_signal(signal.SIGINT), 130),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), 143),
    ],
)
def test_a_signal_ends_it_with_the_command_that_resumes(run, study, stop_after, stop, code):
    stop_after |= {"cells": 20, "how": stop}
    handler = signal.getsignal(signal.SIGTERM)
    found, out, err = run("sweep", str(study), "--workers", "2", "--out", "my sweep.sqlite")
    assert (found, out) == (code, "")
    assert err.endswith(f"go on with: depthlr sweep {study} --workers 2 --out 'my sweep.sqlite'\n")
    assert signal.getsignal(signal.SIGTERM) is handler
    assert len(read_results("my sweep.sqlite").records) == 19
    _, _, err = run("sweep", "my sweep.sqlite")
    assert "19 cells are kept from before" in err


@pytest.mark.parametrize("again", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_does_not_disturb_the_first(run, study, stop_after, again):
    stop_after |= {"cells": 20, "how": lambda: signal.raise_signal(signal.SIGINT)}
    stop_after["closing"] = lambda: signal.raise_signal(again)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    code, out, err = run("sweep", str(study))
    assert (code, out) == (130, "")
    assert "stopped with 19 cells kept" in err
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


NAMED_DEPTH = """
from torch import nn

def net(depth=1):
    return nn.Sequential(nn.Flatten(), *(nn.Linear(64, 64) for _ in range(depth)), nn.Linear(64, 10))
"""


def test_an_argument_called_depth_is_not_taken_for_the_effective_depth(run, tmp_path, monkeypatch):
    (tmp_path / "named_depth.py").write_text(NAMED_DEPTH)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "s.toml").write_text(STUDY.replace("mlp?width=8", "named_depth:net").replace('"layers"', '"depth"'))
    found = json.loads(run("sweep", "s.toml", "--json")[1])["fits"]
    results = read_results("s.sqlite")
    assert found["depth"]["slope"] == results.fit("depth").slope
    assert found["depth (argument)"]["slope"] == results.fit("size").slope
    _, out, _ = run("sweep", "s.sqlite", "--trust")
    assert f"over effective depth: {results.fit('depth')}" in out
    assert f"over depth (argument): {results.fit('size')}" in out
    for text in (out, render_report("s.sqlite", "markdown")):
        head = next(line for line in text.splitlines() if "depth" in line and "rate" in line and line[0] in "┃|")
        cells = [cell.strip() for cell in head.replace("\\", "").strip("┃|").replace("┃", "|").split("|")]
        assert cells[:2] == ["depth (argument)", "depth"]


def test_a_seed_at_the_edge_does_not_count_in_the_best_rate(capsys):
    inside, cut_off = {1e-3: 2.0, 1e-2: 1.0, 1e-1: 1.5}, {1e-4: 1.0, 1e-3: 2.0}
    _print(results_of({(3, 0): inside, (3, 1): cut_off, (6, 0): cut_off}), Path("s.sqlite"), json=False)
    rows = [line.split("│")[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["3", "4", "1.00e-2", "1.00e-2", "1.00e-2", "1.0000"],
        ["6", "7", "at edge", "-", "-", "-"],
    ]


def test_flags_describe_a_study_without_a_file(run):
    arguments = "--model mlp?width=8 --vary layers --sizes 2,3 --data digits --steps 2 --low 1e-4 --high 10 --points 20"
    code, _, _ = run("sweep", *arguments.split(), "--seeds", "1", "--out", "demo.sqlite")
    assert code == 0
    study = read_results("demo.sqlite").study
    assert (study.name, study.model.sizes, study.search.seeds, study.search.points) == ("demo", (2, 3), (0,), 20)
    run("sweep", "--model", "mlp?width=8", "--sizes", "2,3", "--points", "10")
    assert read_results("mlp.sqlite").study.training.steps == 100


def test_fit_reads_a_study(run, study):
    swept = json.loads(run("sweep", str(study), "--json")[1])
    for over, name in (("depth", "depth"), ("size", "layers")):
        found = json.loads(run("fit", "mine.sqlite", "--over", over, "--at", "9", "--json")[1])
        assert found["slope"] == swept["fits"][name]["slope"]
        assert set(found["rates"]) == {"9"}
    assert "slope -" in run("fit", "mine.sqlite")[1]


def test_fit_of_a_study_without_depths_names_the_option(run, study):
    run("sweep", str(study))
    with sqlite3.connect("mine.sqlite") as connection:
        connection.execute("DELETE FROM facts WHERE name IN ('depths', 'sha256')")
        connection.execute("PRAGMA user_version = 1")
    with pytest.raises(DepthlrError, match="--over size"):
        run("fit", "mine.sqlite")
    assert "slope -" in run("fit", "mine.sqlite", "--over", "size")[1]


def test_exports_of_equal_studies_are_equal_to_the_byte(run, study):
    run("sweep", str(study))
    run("sweep", str(study), "--out", "again.sqlite")
    for form in ("csv", "json"):
        one, two = (run("export", name, "--format", form)[1] for name in ("mine.sqlite", "again.sqlite"))
        assert one == two
        assert one.endswith("\n")
        assert run("export", "mine.sqlite", "--format", form, "--out", f"table.{form}")[1] == ""
        with open(f"table.{form}") as file:
            assert file.read() == one
    assert run("export", "mine.sqlite")[1].startswith("size,depth,seed,rate,loss,diverged\n2,3,0,")
    assert "seconds,finished" in run("export", "mine.sqlite", "--times")[1]


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
@pytest.mark.parametrize("name", ["mine.sqlite", "./mine.sqlite", "link.sqlite"])
def test_an_export_never_overwrites_its_study(run, study, monkeypatch, form, name):
    run("sweep", str(study))
    os.symlink("mine.sqlite", "link.sqlite")
    monkeypatch.setattr("depthlr.cli.report._parquet", lambda results, times: b"a table")
    with pytest.raises(DepthlrError, match="is the study itself: choose another name for its table"):
        run("export", "mine.sqlite", "--format", form, "--out", name)
    assert read_results("mine.sqlite").complete


def test_a_picture_never_replaces_its_study(run, study):
    run("sweep", str(study), "--out", "mine.png")
    os.symlink("mine.png", "link.png")
    before = Path("mine.png").read_bytes()
    for name in ("mine.png", "./mine.png", "link.png"):
        with pytest.raises(DepthlrError, match="is the study itself: choose another name for its picture"):
            run("plot", "mine.png", "--out", name)
    assert Path("mine.png").read_bytes() == before


def test_a_study_goes_on_and_is_fitted_whatever_its_file_is_called(run, study, stop_after):
    stop_after |= {"cells": 20, "how": lambda: signal.raise_signal(signal.SIGINT)}
    _, _, err = run("sweep", str(study), "--out", "kept.db")
    command = shlex.split(err.replace("\n", "").split("go on with: ")[1])
    assert "19 cells are kept from before" in run(*command[1:])[2]
    assert read_results("kept.db").complete
    assert "slope -" in run("fit", "kept.db")[1]


def test_a_table_that_is_a_pipe_is_read_from_its_first_byte(run):
    reader, writer = os.pipe()
    os.write(writer, b"depth,rate\n4,0.1\n8,0.05\n")
    os.close(writer)
    assert json.loads(run("fit", f"/dev/fd/{reader}", "--json")[1])["slope"] == pytest.approx(-1)
    os.close(reader)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep"], "nothing to sweep"),
        (
            ["sweep", "--model", "mlp", "--sizes", "2,3", "--seeds", "0"],
            r"seeds is 0: give a whole number of at least 1",
        ),
        (["sweep", "mine.toml", "--steps", "3"], "--steps and mine.toml both describe"),
        (["sweep", "mine.toml", "--model", "cnn"], "--model and mine.toml both describe"),
        (["sweep", "none.toml"], "cannot be read"),
        (["sweep", "none.sqlite"], "There is no file"),
        (["sweep", "--model", "mlp", "--sizes", "2;3"], "write whole numbers"),
        (["sweep", "--model", "hf/gpt2", "--sizes", "2,3"], "needs --vary"),
        (["sweep", "mine.toml", "--out", "no/folder/x.sqlite"], "check that its folder is there"),
        (["sweep", "mine.toml", "--out", "."], "is a folder: name the file"),
        (["export", "none.sqlite"], "There is no file"),
        (["export", "mine.toml"], "describes a study; its results are in"),
        (["fit", "none.sqlite"], "There is no file"),
        (["fit", "mine.sqlite", "--spacing", "0.1"], "--spacing is for tables"),
        (["fit", "optima.csv", "--over", "size"], "--over size and --metric are for studies"),
    ],
)
def test_bad_input_is_one_sentence(run, study, arguments, message):
    with pytest.raises(DepthlrError, match=message) as caught:
        run(*arguments)
    assert "\n" not in str(caught.value)


def test_an_export_to_a_name_that_no_file_can_have_is_a_sentence(run, study):
    run("sweep", str(study))
    with pytest.raises(OSError, match="File name too long"):
        run("export", "mine.sqlite", "--out", "x" * 300 + ".csv")


def test_a_record_whose_rate_is_no_number_is_said_and_run_anew(run, study):
    run("sweep", str(study))
    before = run("export", "mine.sqlite")[1]
    with sqlite3.connect("mine.sqlite") as connection:
        connection.execute("UPDATE cells SET rate = 'wide' WHERE rowid = 5")
    connection.close()
    code, _, err = run("sweep", str(study))
    assert code == 0
    assert "rate 'wide' is damaged and is not trusted" in err
    assert run("export", "mine.sqlite")[1] == before


def test_parquet_needs_a_file_and_its_package(run, study, monkeypatch):
    run("sweep", str(study))
    with pytest.raises(DepthlrError, match="name a file with --out"):
        run("export", "mine.sqlite", "--format", "parquet")

    def missing(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr("depthlr.cli.report.import_module", missing)
    with pytest.raises(DepthlrError, match="pip install pyarrow"):
        run("export", "mine.sqlite", "--format", "parquet", "--out", "t.parquet")
