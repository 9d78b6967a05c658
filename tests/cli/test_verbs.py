"""The command line: results on stdout, remarks on stderr, bad input in one sentence with exit code 2."""

from __future__ import annotations

import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from depthlr.cli.train_study import train_study
from depthlr.cli.tune import RECIPE
from depthlr.formatting import rate_text
from depthlr.law import fit_power_law
from depthlr.law.carried_rate import EVIDENCE
from depthlr.study.description import Search, Study
from depthlr.study.results import Results
from depthlr.transfer.suggest import SUGGESTION_EVIDENCE


@pytest.fixture
def fit_of(run, tmp_path, monkeypatch):
    """Exit code and stderr of a fit to a table, which is called optima.csv."""
    monkeypatch.chdir(tmp_path)

    def fit_of(text: str, *options: str) -> tuple[int, str]:
        (tmp_path / "optima.csv").write_text(text)
        code, _, err = run("fit", "optima.csv", *options)
        return code, err

    return fit_of


@pytest.mark.parametrize(("target", "rate"), [(14, "6.23e-3"), (18, "4.27e-3"), (22, "3.16e-3"), (42, "1.20e-3")])
def test_transfer_prints_the_rate_alone_on_stdout(run, target: int, rate: str) -> None:
    code, out, err = run("transfer", "--rate", "2.462e-3", "--from", "26", "--to", str(target))
    assert (code, out) == (0, rate + "\n")
    assert "law: depth 26" in err
    assert "assumes" in err


def test_transfer_takes_any_optimizer_and_schedule_that_the_rule_ignores(run) -> None:
    depths = ["transfer", "--rate", "0.1", "--from", "4", "--to", "8"]
    expected = run(*depths, "--rule", "constant")[1]
    for schedule in ("cosine", "linear", "wsd", "my_package.training:decay"):
        code, out, err = run(*depths, "--schedule", schedule, "--optimizer", "lamb")
        assert (code, out) == (0, expected), err
    models = ["transfer", "--rate", "0.1", "--from", "mlp?layers=3&width=4", "--to", "mlp?layers=7&width=4"]
    assert run(*models, "--optimizer", "lamb", "--rule", "constant")[1] == expected


def test_transfer_between_models_warns_of_widths(run) -> None:
    code, out, err = run("transfer", "--rate", "1e-2", "--from", "vit?blocks=12", "--to", "vit?blocks=6&width=192")
    assert (code, out) == (0, "2.53e-2\n")
    assert "widths differ" in err


def test_measured_transfer(run) -> None:
    arguments = ["--from", "resnet?blocks=2&width=8", "--to", "resnet?blocks=6&width=8", "--data", "digits"]
    code, out, _ = run("transfer", "--rate", "0.1", *arguments, "--rule", "measured", "--seeds", "3", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["rule"] == "measured"
    assert 0 < found["rate"] < 0.1
    assert (found["source_depth"], found["target_depth"]) == (4, 8)


def test_depth_table_and_json(run) -> None:
    code, out, _ = run("depth", "vit?blocks=12")
    assert code == 0
    assert "effective depth 26 (backbone 24; 2 plain, 24 residual)" in out
    assert "blocks.11.feed_forward" in out
    code, out, _ = run("depth", "vit?blocks=12", "--json")
    found = json.loads(out)
    assert (found["total"], found["backbone"], len(found["units"])) == (26, 24, 26)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            "def net(depth=2):\n    raise KeyError('width\\nand more')",
            "depthlr: broken:net?depth=2 could not be built (KeyError: 'width\\nand more').",
        ),
        (
            "def net(depth=2):\n    assert depth > 9",
            "depthlr: broken:net?depth=2 could not be built (AssertionError: no message).",
        ),
        (
            "def net(depth=2):\n    raise ValueError('depth is even.\\nSee the manual.')",
            "depthlr: broken:net?depth=2 could not be built (ValueError: depth is even).",
        ),
        (
            "def net(:",
            "depthlr: broken:net could not be imported (SyntaxError: invalid syntax (broken.py, line 1)).",
        ),
        (
            "raise RuntimeError('no GPU')",
            "depthlr: broken:net could not be imported (RuntimeError: no GPU).",
        ),
    ],
)
def test_a_builder_that_raises_is_one_sentence_in_every_verb(run, tmp_path, monkeypatch, module, message) -> None:
    (tmp_path / "broken.py").write_text(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    spec = "broken:net?depth=2"
    for arguments in (
        ["depth", spec],
        ["measure", spec],
        ["suggest", spec],
        ["transfer", "--rate", "0.1", "--from", spec, "--to", "4"],
        ["check", "broken:net", "--vary", "depth", "--sizes", "2,4"],
        ["sweep", "--model", "broken:net", "--vary", "depth", "--sizes", "2,4"],
    ):
        assert run(*arguments) == (2, "", message + "\n")
    assert list(tmp_path.glob("*.sqlite")) == []


EXITS = """
import sys
from torch import nn

def builder(depth=2):
    sys.exit(3)

class Runs(nn.Module):
    def __init__(self, depth=2):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x):
        sys.exit(3)
"""


@pytest.mark.parametrize("name", ["builder", "Runs"])
def test_a_model_that_exits_is_one_sentence_in_every_verb(run, tmp_path, monkeypatch, name) -> None:
    (tmp_path / "exits.py").write_text(EXITS)
    monkeypatch.chdir(tmp_path)
    spec = f"exits:{name}"
    for arguments in (
        ["depth", spec, "--input", "64"],
        ["measure", spec, "--input", "64"],
        ["suggest", spec, "--input", "64"],
        ["transfer", "--rate", "0.1", "--from", spec, "--to", "4", "--input", "64"],
        ["check", spec, "--vary", "depth", "--sizes", "2,4", "--input", "64"],
        ["sweep", "--model", spec, "--vary", "depth", "--sizes", "2,4"],
    ):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "called sys.exit(3): raise an error there instead" in err
    assert list(tmp_path.glob("*.sqlite")) == []


def test_depth_of_a_users_own_callable(run, tmp_path, monkeypatch) -> None:
    (tmp_path / "their_models.py").write_text(
        "from torch import nn\n"
        "def net(width=4, layers=3):\n"
        "    return nn.Sequential(nn.Linear(8, width), *(nn.Linear(width, width) for _ in range(layers - 1)))\n"
    )
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("depth", "their_models:net?layers=5", "--input", "8", "--json")
    assert (code, json.loads(out)["total"]) == (0, 5)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "muon"])
def test_measure_prints_energies_and_a_rate(run, optimizer: str) -> None:
    options = ["--optimizer", optimizer, "--batch", "16", "--seeds", "2"]
    code, out, err = run("measure", "mlp?layers=3&width=16&inputs=20", *options)
    assert code == 0
    assert "mean energy 1 at rate" in out
    assert "spread over seeds" in err
    code, out, _ = run("measure", "mlp?layers=3&width=16&inputs=20", *options, "--json")
    found = json.loads(out)
    assert found["rate"] == pytest.approx(found["mean_energy"]["median"] ** -0.5)
    assert len(found["units"]) == 4


def test_measure_takes_token_models_and_the_builders_own_initialization(run) -> None:
    arguments = ["measure", "gpt?blocks=1&width=16&heads=2&vocabulary=20&context=6", "--batch", "4", "--seeds", "1"]
    ours = json.loads(run(*arguments, "--json")[1])
    theirs = json.loads(run(*arguments, "--own-init", "--json")[1])
    assert ours["rate"] != pytest.approx(theirs["rate"], rel=1e-3)


def test_fit_reads_a_table_of_optima(run, tmp_path) -> None:
    table = tmp_path / "optima.csv"
    table.write_text("depth,rate,seed\n" + "".join(f"{d},{0.5 * d**-1.25},{s}\n" for d in (4, 8, 16) for s in (0, 1)))
    code, out, _ = run("fit", str(table), "--spacing", "0.0625", "--at", "32")
    assert code == 0
    assert "slope -1.25" in out
    assert "rate at depth 32: 6.57e-3" in out
    found = json.loads(run("fit", str(table), "--at", "32", "--json")[1])
    assert found["slope"] == pytest.approx(-1.25)
    assert found["rates"]["32"] == pytest.approx(0.5 * 32**-1.25)
    near = ("1000001", "1000002", "4.5")
    _, out, _ = run("fit", str(table), "--json", *(word for depth in near for word in ("--at", depth)))
    assert tuple(json.loads(out)["rates"]) == near


def test_fit_says_what_its_rate_at_a_depth_lies_within(run, tmp_path) -> None:
    table = tmp_path / "optima.csv"
    depths, rates = [4, 4, 8, 8, 16, 16], [0.1, 0.12, 0.045, 0.05, 0.02, 0.016]
    table.write_text("depth,rate\n" + "".join(f"{d},{r}\n" for d, r in zip(depths, rates, strict=True)))
    line = fit_power_law(depths, rates)
    low, high = (float(end[0]) for end in line.band([32]))
    _, out, _ = run("fit", str(table), "--at", "32")
    assert f"rate at depth 32: {rate_text(line.predict(32))} (95% {rate_text(low)} to {rate_text(high)})" in out
    found = json.loads(run("fit", str(table), "--at", "32", "--json")[1])
    assert found["rate_intervals"] == {"32": pytest.approx([low, high])}
    assert low < found["rates"]["32"] < high
    table.write_text("depth,rate\n4,0.1\n8,0.05\n")
    assert "rate at depth 16: 2.50e-2 (no interval: add seeds or depths)" in run("fit", str(table), "--at", "16")[1]
    assert json.loads(run("fit", str(table), "--at", "16", "--json")[1])["rate_intervals"] == {"16": None}


def test_data_describes_the_digits(run) -> None:
    code, out, _ = run("data", "digits", "--json")
    assert (code, json.loads(out)["examples"]) == (0, 1797)


def test_transfer_says_beside_the_laws_rate_what_tuned_rates_did_on_such_models(run) -> None:
    small, large = ("gpt?blocks=2&width=32&heads=2", "gpt?blocks=6&width=32&heads=2")
    code, out, err = run("transfer", "--rate", "1e-3", "--from", small, "--to", large, "--optimizer", "adamw")
    assert (code, len(out.split())) == (0, 1)
    assert "pre-norm" in err
    assert "derived for SGD" in err
    assert "use the rule 'measured'" in err
    assert "no interval: outside the rule's scope" in err
    assert "80% interval" not in err


@pytest.mark.parametrize(
    ("command", "evidence"),
    [
        (["transfer", "--rate", "0.1", "--from", "4", "--to", "8"], EVIDENCE),
        (["suggest", "mlp?layers=2&width=8", "--data", "digits", "--seeds", "1"], SUGGESTION_EVIDENCE),
    ],
    ids=["transfer", "suggest"],
)
def test_commands_print_it_once_to_stderr_and_in_their_help(run, command, evidence) -> None:
    code, out, err = run(*command)
    assert code == 0
    assert evidence not in out
    assert " ".join(err.split()).count(evidence) == 1
    assert evidence in " ".join(run(command[0], "--help")[1].replace("│", " ").split())


def test_demo_tells_the_whole_story(run) -> None:
    code, out, err = run("demo", "--steps", "12", "--seeds", "1")
    assert code == 0, err
    assert "80% interval" in out
    assert "the target tuned by itself" in out
    for rule in ("constant", "copy", "law", "measured"):
        assert f"│ {rule} " in out
    assert "the target in 12 steps (100% of the schedule)" in " ".join(out.split())
    assert " of three full runs with one seed it had the lowest loss" in err
    assert "--verify" not in err  # which this verb does not have


def test_demo_ends_with_a_sentence_if_the_source_has_no_optimum_inside_the_range(run, monkeypatch) -> None:
    monkeypatch.setattr("depthlr.cli.tune.RECIPE", replace(RECIPE, search=Search("grid", 1e-7, 2e-7, 3, (0,))))
    code, out, err = run("demo", "--steps", "2", "--seeds", "1")
    assert (code, out) == (2, "")
    assert "the source has no tuned rate to carry" in err


def test_demo_prints_the_rate_if_the_target_has_no_optimum_to_compare_it_with(run, monkeypatch) -> None:
    def train(study: Study, path: Path) -> Results:
        results = train_study(study, path)
        if study.model.sizes == RECIPE.model.sizes[:1]:
            return results
        records = tuple(replace(record, loss=math.inf, diverged=True) for record in results.records)
        return replace(results, records=records)

    monkeypatch.setattr("depthlr.cli.tune.train_study", train)
    code, out, err = run("demo", "--steps", "12", "--seeds", "1")
    assert code == 0, err
    assert "80% interval" in out
    assert "next: train the target below" in err
    assert "the target has no tuned rate to compare with: size 8, seed 0: every rate diverged" in " ".join(err.split())
    assert "source" not in err.partition("next: train the target below")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["transfer", "--rate", "0.1", "--from", "4", "--to", "8", "--rule", "lw"], "no rule 'lw'"),
        (
            ["transfer", "--rate", "0.1", "--from", "4", "--to", "8", "--optimizer", "sdg"],
            "--optimizer is 'sdg' (did you mean 'sgd'?)",
        ),
        (
            ["transfer", "--rate", "0.1", "--from", "4", "--to", "8", "--schedule", "constnat"],
            "--schedule is 'constnat' (did you mean 'constant'?): choose from constant, warmup, cosine",
        ),
        (["transfer", "--rate", "-1", "--from", "4", "--to", "8"], "The rate is -1.0: give a finite number above 0"),
        (["transfer", "--rate", "0.1", "--from", "4", "--to", "8", "--rule", "measured"], "is a depth: name models"),
        (["transfer", "--rate", "0.1", "--from", "nothing", "--to", "8"], "no model 'nothing'"),
        (
            ["transfer", "--rate", "0.1", "--from", "4", "--to", "8", "--data", "digits"],
            "--data is for rules that measure",
        ),
        (["transfer", "--rate", "1", "--from", "4", "--to", "8", "--own-init"], "add --rule measured, or leave it out"),
        (["depth", "cnn?layer=3"], "did you mean 'layers'"),
        (["depth", "no.such.module:net"], "no.such.module"),
        (["depth", "mlp?layers=0"], "layers"),
        (["measure", "cnn?layers=2&width=4", "--optimizer", "sdg"], "the optimizer is 'sdg'"),
        (["measure", "cnn?layers=2&width=4", "--batch", "0"], "at least 1"),
        (["measure", "cnn?layers=2&width=4", "--seeds", "0"], "at least 1"),
        (["fit", "no-such-file.csv"], "cannot be read"),
        (["demo", "--seeds", "-1"], "--seeds is -1: give a whole number of at least 1"),
        (["demo", "--seeds", "99999999999"], "at most 1,000"),
        (["sweep", "--model", "mlp?width=8", "--sizes", "²,3"], "write whole numbers"),
        (["sweep", "--model", "mlp?width=8", "--sizes", "3,x,4"], "write whole numbers"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_two(run, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("depthlr: ")
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_fit_refuses_a_table_of_runs_whatever_its_result_is_called(fit_of) -> None:
    for title in (
        "loss",
        "Loss",
        "val_loss",
        "train loss",
        "testLoss",
        "losses",
        "accuracy",
        "top1_acc",
        "error_rate",
        "metric",
    ):
        code, err = fit_of(f"depth,rate,{title}\n4,0.1,2.0\n8,0.05,2.1\n")
        assert code == 2
        assert f"has a column {title.lower()}, so its rows are runs, not optima" in err
    for title in ("seed", "name", "accelerator", "accumulation", "glossary", "symmetrical", "rate_error", "stderr", ""):
        assert fit_of(f"depth,rate,{title}\n4,0.1,2.0\n8,0.05,2.1\n")[0] == 0


@pytest.mark.parametrize(
    "content",
    [
        b"depth,rate\n4,0.1\n8,0.05\n",
        b"\xef\xbb\xbfdepth,rate\n4,0.1\n8,0.05\n",
        b"Depth , RATE \r\n4 , 0.1\r\n8, 0.05\r\n",
        b"seed,rate,depth\n0,0.1,4\n0,0.05,8\n",
        b"\ndepth,rate,\n\n4,0.1,\n,,\n8,0.05,\n",
    ],
)
def test_fit_reads_a_table_however_it_was_saved_from_a_file_and_from_stdin(run, tmp_path, monkeypatch, content) -> None:
    (tmp_path / "optima.csv").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), "ascii"))
    for file in (str(tmp_path / "optima.csv"), "-"):
        code, out, err = run("fit", file, "--json")
        assert (code, err.count("depthlr:")) == (0, 0)
        assert json.loads(out)["slope"] == pytest.approx(-1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "its columns are: none"),
        ("a,b\n1,2\n", "its columns are: 'a', 'b'"),
        ("depth rate\n4 0.1\n8 0.05\n", "separated by commas, but its columns are: 'depth rate'"),
        ("depth,rate,rate\n4,0.1,0.2\n8,0.05,0.1\n", "once each"),
        ("depth,Rate,rate \n4,0.1,0.2\n8,0.05,0.1\n", "once each"),
        ("depth,rate\n", "two distinct depths"),
        ("depth,rate\n\n4,0.1\n8,x\n", "The rate in line 4 of optima.csv is 'x': give a finite number above 0"),
        ("depth;rate\n4;0.1\n8;0.05\n", "separated by commas, but its columns are: 'depth;rate'"),
        ("depth,rate\n4,0.1\n8\n", "Line 3 of optima.csv has 1 cells below 2 columns"),
        ("depth,rate\n4,0.1\n8,0\n", "The rate in line 3 of optima.csv is 0.0: give a finite number above 0"),
        ("depth,rate\n-4,0.1\n8,0.1\n", "The depth in line 2 of optima.csv is -4.0: give a finite number above 0"),
        ("depth,rate\n4,0.1\n", "two distinct depths"),
        ("depth,rate\n4,1.5,\n8,0,5\n", "Line 3 of optima.csv has 3 cells below 2 columns: write one cell a column"),
    ],
)
def test_fit_says_in_a_sentence_what_is_wrong_with_a_table_and_where(fit_of, text: str, message: str) -> None:
    code, err = fit_of(text)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(("rates", "at"), [(("1e-300", "1e300"), "1000"), (("0.1", "0.01"), "1e300")])
def test_fit_refuses_to_print_a_rate_that_no_float_holds(fit_of, rates, at) -> None:
    code, err = fit_of("depth,rate\n4,{}\n8,{}\n".format(*rates), "--at", at)
    assert code == 2
    assert "beyond what a float holds" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(("model", "said"), [("cnn?layers=2&width=4", True), ("mlp?layers=2&width=4", False)])
def test_groups_say_if_nothing_is_left_for_muon(run, model: str, said: bool) -> None:
    code, _, err = run("groups", model, "--rate", "1e-3", "--other-rate", "1e-4")
    assert code == 0, err
    assert ("no hidden matrices for Muon" in err) is said
