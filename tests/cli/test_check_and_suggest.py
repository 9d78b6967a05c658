"""`depthlr check` and `depthlr suggest`: the answer on stdout, remarks on stderr, a failed check in the exit code."""

from __future__ import annotations

import json

import pytest

from depthlr.cli import measurement

MLP = "mlp?width=128&inputs=64"


def test_suggest_prints_the_rate_alone_on_stdout(run) -> None:
    code, out, err = run("suggest", f"{MLP}&layers=3", "--data", "digits")
    assert code == 0
    assert "80% interval" in err
    assert "a constant rate from this initialization on" in err
    found = json.loads(run("suggest", f"{MLP}&layers=3", "--data", "digits", "--json")[1])
    assert float(out) == pytest.approx(found["rate"], rel=5e-3)
    assert found["low"] < found["rate"] < found["high"]
    slower = json.loads(run("suggest", f"{MLP}&layers=3", "--data", "digits", "--optimizer", "momentum", "--json")[1])
    assert slower["rate"] == pytest.approx(found["rate"] / 10**0.5, rel=1e-4)
    code, out, err = run("suggest", f"{MLP}&layers=3", "--data", "digits", "--schedule", "warmup-cosine")
    assert (code, float(out) > 2 * found["rate"]) == (0, True)
    assert "the peak, after a warm-up" in err
    code, out, err = run("suggest", f"{MLP}&layers=3", "--schedule", "step")
    assert (code, out) == (2, "")
    assert "no calibration for the schedule 'step'" in err


def test_weights_that_are_not_the_users_own_are_said(run) -> None:
    theirs = ["suggest", "depthlr.models.mlp:MLP?layers=3&width=32&inputs=64", "--data", "digits", "--seeds", "2"]
    assert "drawn anew by init_" in run(*theirs)[2]
    assert "drawn anew" not in run(*theirs, "--own-init")[2]
    assert "drawn anew" not in run("suggest", f"{MLP}&layers=3", "--data", "digits", "--seeds", "2")[2]


def test_check_says_what_it_found_and_draws_it(run, tmp_path) -> None:
    options = ["--vary", "layers", "--sizes", "4,8,16", "--data", "digits", "--optimizer", "adamw"]
    picture = tmp_path / "check.svg"
    code, out, err = run("check", MLP, *options, "--plot", str(picture))
    assert code == 0
    assert "pass: at every size" in out
    assert "over effective depth: slope -1." in out
    assert "wrote" in err
    assert "pass: at every size" in picture.read_text()
    found = json.loads(run("check", MLP, *options, "--json")[1])
    assert (found["verdict"], [row["depth"] for row in found["sizes"]]) == ("pass", [5, 9, 17])
    assert found["fit"]["slope"] < -1


def test_a_failed_check_is_exit_code_one_and_a_caution_is_not(run) -> None:
    options = ["--vary", "layers", "--data", "digits"]
    code, out, _ = run("check", MLP, *options, "--sizes", "2,4,8", "--own-init")
    assert (code, "fail: units vanish" in out) == (1, True)
    code, out, _ = run("check", MLP, *options, "--sizes", "2,4", "--seeds", "1", "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["sizes"][1]["uncertainty"]) == (0, "caution", None)


def test_what_is_advised_can_be_done_from_the_command_line(run) -> None:
    _, _, err = run("suggest", "mlp?layers=16&width=8&inputs=64", "--data", "digits", "--seeds", "3")
    assert "take more seeds." in err
    _, out, err = run("check", "mlp?layers=2&inputs=64", "--vary", "width", "--sizes", "8,32", "--data", "digits")
    assert "use the rule 'measured'" in out + err
    assert "from Python, units= counts" in out + err


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_picture_that_cannot_be_drawn_costs_no_result(run, tmp_path, form) -> None:
    one_depth = ["check", "mlp?layers=2&inputs=64", "--vary", "width", "--sizes", "8,32", "--data", "digits", *form]
    picture = tmp_path / "check.png"
    code, out, err = run(*one_depth, "--plot", str(picture))
    assert (code, out) == (2, run(*one_depth)[1])
    assert "every size has the same: leave it out" in err
    assert not picture.exists()


@pytest.mark.parametrize("data", ["digits", "random"])
def test_batches_are_made_once_for_all_sizes(run, monkeypatch, data) -> None:
    made = []
    for name in ("_shuffled_batches", "random_batches"):
        make = getattr(measurement, name)
        monkeypatch.setattr(measurement, name, lambda *arguments, make=make: made.append(1) or make(*arguments))
    assert run("check", MLP, "--vary", "layers", "--sizes", "2,4,8", "--seeds", "1", "--data", data)[0] in (0, 1)
    assert len(made) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vary", "layers", "--sizes", "2"], "two sizes or more"),
        (["--vary", "layers", "--sizes", "4,2"], "from small to large"),
        (["--vary", "layers", "--sizes", "a,b"], "whole numbers"),
        (["--vary", "blocks", "--sizes", "2,4"], "no argument of mlp"),
        (["--vary", "width", "--sizes", "2,4"], "sets width"),
        (["--vary", "layers", "--sizes", "2,4", "--plot", "check.txt"], ".png, .svg or .pdf"),
        (["--vary", "layers", "--sizes", "2,4", "--seeds", "0"], "--seeds is 0: give a whole number of at least 1"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(run, arguments: list[str], message: str) -> None:
    code, out, err = run("check", MLP, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("depthlr: ")
    assert message in err
    assert len(err.strip().splitlines()) == 1
