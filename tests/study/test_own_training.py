"""Cells that another program trains: a command, a Python function, or a scheduler that asks and tells."""

from __future__ import annotations

import io
import json
import math
import shlex
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.study import own_script
from tests.training import command_cell

import depthlr
from depthlr.cli.app import app
from depthlr.data import load
from depthlr.errors import DepthlrError
from depthlr.present.report import render_report
from depthlr.study import (
    Models,
    Search,
    Study,
    Training,
    ask,
    create_study,
    open_store,
    parse_study,
    read_results,
    study_from_dict,
    sweep,
    sweep_function,
    task_at,
    tell,
    to_csv,
    to_json,
    to_toml,
)
from depthlr.training import BySize, Cell, InProcess, Outcome, SerialRunner
from depthlr.training.cell import failed_outcome

GRID = Search("grid", 0.02, 1.0, 4, seeds=(0,))
SCRIPT = f"{sys.executable} {shlex.quote(own_script.__file__)} --lr {{rate}} --layers {{size}} --seed {{seed}}"
LIGHT = f"{sys.executable} -S {shlex.quote(command_cell.__file__)} works {{size}} {{seed}} {{rate}}"


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Stdout and stderr of a verb, run in its own folder, with some text on stdin."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: str = "") -> tuple[str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        app(arguments, standalone_mode=False)
        out, err = capsys.readouterr()
        return out, err

    return run


# -- commands ----------------------------------------------------------------------------------------------------------


def test_the_same_study_through_our_trainer_and_through_a_script_has_the_same_losses(run, tmp_path):
    model = Models("mlp?width=8", "layers", (1, 3))
    training = Training(steps=own_script.STEPS, batch=own_script.BATCH)
    ours = Study("ours", model, training, search=GRID)
    data = load("digits")
    executor = BySize(lambda size: SerialRunner(task_at(ours, size, data)))
    expected = sweep(ours, executor, tmp_path / "ours.sqlite", examples=data)
    theirs = replace(ours, training=Training(command=SCRIPT))
    (tmp_path / "theirs.toml").write_text(to_toml(theirs))
    run("sweep", "theirs.toml", "--workers", "2")
    found = read_results(tmp_path / "theirs.sqlite")
    assert [record.cell for record in found.records] == [record.cell for record in expected.records]
    assert [record.loss for record in found.records] == pytest.approx([r.loss for r in expected.records], rel=1e-5)
    assert found.depths == {1: 2, 3: 4}
    for size, rate in expected.tuned_rates.items():
        assert abs(math.log10(found.tuned_rates[size] / rate)) <= GRID.spacing * 1.001


def test_a_command_is_swept_by_sizes_alone_and_resumes(run, tmp_path):
    out, _ = run("sweep", "--command", LIGHT, "--sizes", "2,4", "--points", "9", "--out", "s.sqlite", "--json")
    found = json.loads(out)
    results = read_results("s.sqlite")
    assert found["study"]["model"] == {"sizes": [2, 4]}
    assert found["study"]["training"] == {"command": LIGHT}
    assert set(found["fits"]) <= {"size"}
    assert results.complete
    for record in results.records:
        assert record.loss == pytest.approx(command_cell.loss_at(record.cell.size, record.cell.seed, record.cell.rate))
    kept = results.records[1:]
    with open_store("fewer.sqlite", results.study) as store:
        store.put(*kept)
    run("sweep", "fewer.sqlite", "--trust")
    assert to_csv(read_results("fewer.sqlite")) == to_csv(results)
    assert "your own model" in render_report("fewer.sqlite")


def test_a_wrong_key_ends_a_sweep_after_its_first_cell_and_may_be_mended_in_the_same_file(run, tmp_path):
    command = f"{sys.executable} -S -c 'print(dict(val_loss=1.0))' {{rate}} {{size}} {{seed}}"
    options = ("sweep", "--command", command, "--sizes", "2", "--points", "5", "--out", "s.sqlite")
    with pytest.raises(DepthlrError, match="its last JSON line has val_loss: set key to the one that is the loss"):
        run(*options, "--key", "eval_loss")
    assert read_results("s.sqlite").records == ()
    run(*options, "--key", "val_loss")
    assert read_results("s.sqlite").study.training.key == "val_loss"


def test_a_study_says_how_it_is_trained_in_one_way():
    text = "[model]\nsizes = [2, 4]\n[training]\ncommand = 'train {rate} {size} {seed}'\nkey = 'loss'\nshell = false\n"
    study = parse_study(text)
    assert study.to_dict()["training"] == {"command": "train {rate} {size} {seed}"}
    assert study_from_dict(study.to_dict()) == study
    assert parse_study(to_toml(study)) == study
    assert study.digest != replace(study, training=replace(study.training, key="eval_loss")).digest
    for wrong, message in {
        "[model]\nsizes = [2]\n[training]\nsteps = 3": r"\[model\] lacks spec",
        "[model]\nspec = 'mlp'\nvary = 'layers'\nsizes = [2]": "neither of steps and epochs",
        "[model]\nspec = 'mlp'\nsizes = [2]\n[training]\nsteps = 3": r"\[model\] lacks vary",
        "[model]\nspec = 'mlp'\nvary = 'layers'": r"\[model\] lacks sizes",
        "[model]\nsizes = [2]\n[training]\ncommand = 'train {rate} {size}'": "has no {seed}, so 3 seeds would train",
    }.items():
        with pytest.raises(DepthlrError, match=message):
            parse_study(wrong)


def test_a_study_that_says_nothing_of_its_training_is_for_ask_and_tell(run, tmp_path):
    (tmp_path / "s.toml").write_text("[model]\nsizes = [2, 4]\n")
    with pytest.raises(DepthlrError, match="with depthlr ask and tell"):
        run("sweep", "s.toml")


def test_old_studies_keep_their_digest():
    """Of a study that was written before commands were known."""
    study = parse_study("[model]\nspec = 'mlp?width=8'\nvary = 'layers'\nsizes = [2, 4]\n[training]\nsteps = 3\n")
    assert study.digest == "1efe27c1e8526f376396632617bb41e260bb5f6935eb79c1435670484afa6bbd"


# -- a function of the user's own --------------------------------------------------------------------------------------


def bowl(rate: float, size: int, seed: int) -> float:
    if rate > 5:
        raise ValueError("too fast")
    return 1 + (math.log10(rate * size) + 0.03 * seed) ** 2 if rate < 2 else math.nan


RATES = np.geomspace(1e-3, 10, 41)


def test_a_function_is_swept_and_goes_on_from_its_file(tmp_path):
    results = depthlr.sweep_function(bowl, RATES, (2, 4, 8), seeds=2)
    assert results.complete
    assert results.fit("size").slope == pytest.approx(-1, abs=0.2)
    assert len(results.records) < 0.5 * 41 * 3 * 2
    for record in results.records:
        cell = record.cell
        if cell.rate < 2:
            assert record.loss == bowl(cell.rate, cell.size, cell.seed)  # to the last bit
        else:
            assert record.diverged
            assert record.failure == ("ValueError: too fast" if cell.rate > 5 else "")
    calls = []
    kept = sweep_function(lambda *cell: calls.append(cell) or bowl(*cell), RATES, (2, 4, 8), 2, tmp_path / "s.sqlite")
    assert len(calls) == len(results.records)
    again = sweep_function(lambda *cell: pytest.fail("trained"), RATES, (8, 2, 4), (0, 1), tmp_path / "s.sqlite")
    assert to_csv(kept) == to_csv(results) == to_csv(again)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rates": [0.1, 0.2, 1.0]}, r"write numpy.geomspace\(0.1, 1, 3\) in their place"),
        ({"sizes": 4}, r"sizes is 4: give a list of sizes, such as \[2, 4, 8\]"),
        ({"rates": [0.1, 1.0]}, "three or more"),
        ({"rates": [0.0, 0.1, 1.0]}, "give a rate"),
        ({"sizes": []}, "model.sizes"),
        ({"sizes": [2.7, 4.9]}, "an entry of model.sizes"),
        ({"seeds": [0.5]}, "an entry of search.seeds"),
        ({"seeds": []}, "search.seeds"),
        ({"seeds": 1.5}, "seeds is 1.5: give a whole number of at least 1"),
        ({"kind": "random"}, "choose from grid, adaptive"),
    ],
)
def test_what_a_function_cannot_be_swept_over_is_a_sentence(changes, message):
    with pytest.raises(DepthlrError, match=message):
        sweep_function(**{"train": bowl, "rates": RATES, "sizes": [2, 4]} | changes)


def test_an_interrupted_function_goes_on_by_the_same_call(tmp_path):
    def stops(rate: float, size: int, seed: int) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"s\.sqlite: make the same call again to go on"):
        sweep_function(stops, RATES, [2], out=tmp_path / "s.sqlite")
    with pytest.raises(KeyboardInterrupt, match="stopped after 0 cells: give out= to keep them"):
        sweep_function(stops, RATES, [2])


def test_rates_that_are_nearly_even_are_moved_onto_the_even_grid():
    results = sweep_function(bowl, [1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1], [2], 1, kind="grid")
    assert [record.cell.rate for record in results.records] == pytest.approx(np.geomspace(1e-3, 1, 7))


def test_sizes_and_seeds_may_be_any_integers():
    results = sweep_function(bowl, RATES, np.array([2, 4]), np.int64(2))
    assert results.study.model.sizes == (2, 4)
    assert results.study.search.seeds == (0, 1)
    assert sweep_function(bowl, RATES, [2], np.arange(2)).study.search.seeds == (0, 1)


@pytest.mark.filterwarnings("error")
def test_a_loss_may_be_a_tensor_with_a_gradient():
    results = sweep_function(lambda *cell: torch.tensor(bowl(*cell), requires_grad=True), RATES[:-10], [2], 1)
    assert results.records
    assert not results.failures


def test_what_a_function_is_told_can_be_done_in_a_call(tmp_path):
    fails = True

    def train(rate: float, size: int, seed: int) -> float:
        if rate > 0.9 and fails:
            raise ValueError("no luck")
        return -math.log10(rate)

    path = tmp_path / "s.sqlite"
    results = sweep_function(train, np.geomspace(1e-3, 1, 4), [2], 1, path, kind="grid")
    assert "retry_failed=True" in results.notes[0]
    fails = False
    results = sweep_function(train, np.geomspace(1e-3, 1, 4), [2], 1, path, kind="grid", retry_failed=True)
    assert not results.failures
    assert "search." not in " ".join(results.notes)
    assert results.notes[0].endswith("raise the highest rate, in a new file")


@pytest.mark.parametrize("verb", ["fit", "report", "serve", "tell", "export"])
@pytest.mark.parametrize("exists", [True, False])
def test_a_description_in_place_of_results_is_told(run, tmp_path, verb, exists):
    if exists:
        (tmp_path / "own.toml").write_text("[model]\nsizes = [2, 4]\n")
    with pytest.raises(DepthlrError, match=r"^own\.toml describes a study; its results are in own\.sqlite: name that"):
        run(verb, "own.toml")


# -- ask and tell ------------------------------------------------------------------------------------------------------


class Bowl(InProcess):
    """Losses of `bowl`; high rates diverge or fail."""

    def run(self, cell: Cell) -> Outcome:
        if cell.rate > 5:
            return failed_outcome("too fast", 0.0)
        loss = bowl(cell.rate, cell.size, cell.seed)
        return Outcome(np.zeros(0, np.float32), 0.0, math.isnan(loss), loss=loss)


def answer(cell: dict) -> dict:
    """What a scheduler tells of a cell."""
    if cell["rate"] > 5:
        return cell | {"failure": "too fast"}
    loss = bowl(cell["rate"], cell["size"], cell["seed"])
    return cell | {"loss": None if math.isnan(loss) else loss}


ASKED = Study("asked", Models(sizes=(2, 4, 8)), Training(), search=Search(low=1e-3, high=10, points=41, seeds=(0, 1)))


def test_a_study_without_a_model_is_fitted_over_size(run):
    sweep_function(bowl, RATES, (2, 4, 8), out="s.sqlite")
    said = run("fit", "s.sqlite", "--json")[0]
    assert said == run("fit", "s.sqlite", "--over", "size", "--json")[0]
    found = json.loads(said)
    assert [point["size"] for point in found["points"]] == [2, 4, 8]
    assert found["metric"] == "loss"
    assert "the law says" not in run("fit", "s.sqlite")[1]
    with pytest.raises(DepthlrError, match="does not know its models' effective depths"):
        run("fit", "s.sqlite", "--over", "depth")


@pytest.mark.parametrize("count", ["1", "3", "1000"])
def test_a_study_filled_by_ask_and_tell_exports_the_bytes_of_one_run_in_process(run, tmp_path, count):
    expected = sweep(ASKED, Bowl(), tmp_path / "ran.sqlite")
    Path("asked.toml").write_text(to_toml(ASKED))
    cells = run("ask", "asked.toml", "-n", count)[0]
    while cells:
        assert run("ask", "asked.sqlite", "-n", count)[0] == cells, "to ask again changes nothing"
        lines = "".join(json.dumps(answer(json.loads(line))) + "\n" for line in reversed(cells.splitlines()))
        assert f"{len(cells.splitlines())} new cells" in run("tell", "asked.sqlite", stdin=lines)[1]
        assert "0 new cells" in run("tell", "asked.sqlite", stdin=lines)[1], "to tell again changes nothing"
        cells = run("ask", "asked.sqlite", "-n", count)[0]
    assert "is finished" in run("ask", "asked.sqlite")[1]
    for form in ("csv", "json"):
        assert run("export", "asked.sqlite", "--format", form)[0] == run("export", "ran.sqlite", "--format", form)[0]
    assert to_json(read_results("asked.sqlite")) == to_json(expected)


def test_a_cell_is_asked_for_with_its_command(tmp_path):
    study = replace(ASKED, training=Training(command="train {rate} {size} {seed}"))
    create_study(study, tmp_path / "s.sqlite")
    first = ask(tmp_path / "s.sqlite", 1)[0]
    assert first["command"] == f"train {first['rate']!r} {first['size']} {first['seed']}"


@pytest.fixture
def asked(tmp_path):
    create_study(ASKED, tmp_path / "s.sqlite")
    return tmp_path / "s.sqlite"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 3}, r"line 2 has the size 3: .*the study has 2, 4, 8"),
        ({"seed": True}, "line 2 has the seed True"),
        ({"rate": 0.123}, "line 2 has the rate 0.123: .*depthlr ask printed"),
        ({"rate": "1e-3"}, "line 2 has the rate '1e-3'"),
        ({"loss": "low"}, "line 2 has the loss 'low'"),
        ({"seconds": -1}, "seconds on line 2"),
        ({"accuracy": 2}, "accuracy on line 2"),
        ({"failure": ""}, "failure on line 2"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_kept(asked, changes, message):
    first, second = (cell | {"loss": 1.0} for cell in ask(asked, 2))
    with pytest.raises(DepthlrError, match=message):
        tell(asked, [json.dumps(first), json.dumps(second | changes)])
    assert read_results(asked).records == ()


@pytest.mark.parametrize("line", ["{", "[1]", "3", '{"size": 2, "seed": 0, "rate": 0.001}'])
def test_a_line_that_is_no_loss_is_refused(asked, line):
    with pytest.raises(DepthlrError, match=r"line 1 .*nothing was kept"):
        tell(asked, [line])


@settings(max_examples=50, deadline=None)
@given(
    line=st.text()
    | st.builds(
        json.dumps,
        st.dictionaries(
            st.sampled_from(["size", "seed", "rate", "loss"]), st.integers() | st.floats() | st.text() | st.none()
        ),
    )
)
def test_any_line_is_taken_or_refused_in_a_sentence(tmp_path_factory, line):
    path = tmp_path_factory.mktemp("tell") / "s.sqlite"
    create_study(ASKED, path)
    try:
        assert tell(path, [line]) in (0, 1)
    except DepthlrError:
        assert read_results(path).records == ()


def test_a_loss_is_told_by_the_key_of_the_study_or_as_loss(tmp_path):
    training = Training(command="train {rate} {size} {seed}", key="val_loss")
    create_study(replace(ASKED, training=training), tmp_path / "s.sqlite")
    cells = ask(tmp_path / "s.sqlite", 3)
    first = cells[0] | {"val_loss": 2.0, "loss": 3.0}
    assert tell(tmp_path / "s.sqlite", map(json.dumps, [first, cells[1] | {"loss": 1.0}])) == 2
    assert {record.loss for record in read_results(tmp_path / "s.sqlite").records} == {2.0, 1.0}
    with pytest.raises(DepthlrError, match=r"line 1 has neither val_loss nor failure"):
        tell(tmp_path / "s.sqlite", [json.dumps(cells[2])])


def test_another_loss_of_a_known_cell_is_refused_but_a_failed_cell_may_be_told_again(asked):
    cell = ask(asked, 1)[0]
    assert tell(asked, [json.dumps(cell | {"failure": "node lost"})]) == 1
    assert tell(asked, [json.dumps(cell | {"loss": 1.5, "accuracy": 0.5, "seconds": 3})]) == 1
    with pytest.raises(DepthlrError, match=r"tells the loss 2 of a cell that has 1\.5"):
        tell(asked, [json.dumps(cell | {"loss": 2.0})])
    (record,) = read_results(asked).records
    assert (record.loss, record.seconds, record.evaluated()[0].accuracy) == (1.5, 3.0, 0.5)


def test_a_rate_with_six_digits_is_the_rate_of_the_grid(asked):
    cell = ask(asked, 1)[0]
    tell(asked, [json.dumps(cell | {"rate": float(f"{cell['rate']:g}"), "loss": 1.0})])
    assert read_results(asked).records[0].cell.rate == cell["rate"]


def test_jobs_that_end_together_are_all_kept(asked):
    cells = ask(asked)
    threads = [
        threading.Thread(target=tell, args=(asked, [json.dumps(cell | {"loss": float(place)})]))
        for place, cell in enumerate(cells)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(record.loss for record in read_results(asked).records) == list(map(float, range(len(cells))))
