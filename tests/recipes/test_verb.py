"""`depthlr reproduce`: what is finished on stdout, what is told on stderr, one sentence for a bad input."""

from __future__ import annotations

import json

import pytest
import typer

from depthlr.cli.reproduce import reproduce
from depthlr.errors import DepthlrError
from depthlr.recipes.running import jobs

app = typer.Typer()
app.command()(reproduce)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch, published):
    """stdout and stderr of the verb in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[str, str]:
        app([*arguments, "--data", str(published)], standalone_mode=False)
        out, err = capsys.readouterr()
        return out, err

    return run


def test_a_setting_is_run_and_its_page_written(run, tmp_path) -> None:
    out, _ = run("main", "--only", "cifar10-resnet", "--protocol", "smoke", "--out", "results", "--json")
    told = json.loads(out)
    assert (told["finished"], told["unfinished"]) == (["cifar10-resnet"], [])
    assert list(told["slopes"]) == ["cifar10-resnet"]
    assert (tmp_path / "results" / "main" / "cifar10-resnet.smoke.csv").is_file()
    out, err = run("--from", "results", "--page", "docs/results.md", "--json")
    written = json.loads(out)
    assert written[-1] == "docs/results.md"
    assert all((tmp_path / path).is_file() for path in written)
    assert "wrote docs/results.md" in err


def test_the_papers_slope_stands_beside_ours(run) -> None:
    out, _ = run("pathsum", "--only", "energy-cifar10-resnet", "--protocol", "smoke")
    row = next(line for line in out.splitlines() if "energy at initialisation" in line)
    assert "−1.5" in row
    assert "finished" in row
    assert " to " in row, "an interval"


def test_spent_time_is_said_and_resumed(run) -> None:
    arguments = ("main", "--only", "cifar10-cnn", "--only", "cifar10-resnet", "--protocol", "smoke", "--json")
    out, err = run(*arguments, "--seconds", "0")
    assert json.loads(out)["unfinished"] == ["cifar10-cnn", "cifar10-resnet"]
    assert "run the same again" in err
    out, _ = run(*arguments)
    assert json.loads(out)["finished"] == ["cifar10-cnn", "cifar10-resnet"]


def test_an_interrupted_run_says_how_to_go_on(run, monkeypatch, capsys) -> None:
    def interrupted(*arguments: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("depthlr.cli.reproduce.run_job", interrupted)
    code = app(["main", "--only", "cifar10-resnet", "--protocol", "smoke"], standalone_mode=False)
    assert code == 130
    assert "run the same again to go on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mian"], "no recipe 'mian'"),
        (["main", "--only", "cifar"], "no setting 'cifar'"),
        (["main", "--protocol", "full"], "no protocol 'full'"),
        (["main", "--precision", "fp8"], "training.precision is 'fp8'"),
        (["--from", "nowhere"], "holds no results"),
        (["main", "--from", "results"], "leave the recipes out"),
    ],
)
def test_a_bad_input_is_one_sentence_and_writes_nothing(run, tmp_path, arguments, sentence) -> None:
    with pytest.raises(DepthlrError, match=sentence):
        run(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_setting_of_two_recipes_is_run_once() -> None:
    names = [setting.name for setting in jobs.chosen(["main", "ablation", "kernel"])]
    assert names.count("cifar10-cnn") == 1
