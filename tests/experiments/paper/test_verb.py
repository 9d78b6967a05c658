"""`python -m experiments.paper` and `depthlr reproduce`: results on stdout, notes on stderr, one sentence of error."""

from __future__ import annotations

import json
import shutil

import pytest

from depthlr.cli import main
from depthlr.errors import DepthlrError
from experiments.paper.app import app
from experiments.paper.running import jobs


@pytest.fixture
def run(capsys, tmp_path, monkeypatch, published):
    """stdout and stderr of the verb in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[str, str]:
        app([*arguments, "--data", str(published)], standalone_mode=False)
        out, err = capsys.readouterr()
        return out, err

    return run


def interrupted(*arguments: object) -> bool:
    raise KeyboardInterrupt


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
    row = next(line for line in out.splitlines() if "energy at initialization" in line)
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


def test_what_had_finished_is_not_called_unfinished_when_the_time_is_spent(run) -> None:
    run("main", "--only", "cifar10-resnet", "--protocol", "smoke")
    run("pathsum", "--only", "energy-cifar10-resnet", "--protocol", "smoke")
    settings = ("cifar10-cnn", "cifar10-resnet", "energy-cifar10-resnet")
    only = [word for name in settings for word in ("--only", name)]
    out, err = run("main", "pathsum", *only, "--protocol", "smoke", "--json", "--seconds", "0")
    told = json.loads(out)
    assert told["unfinished"] == ["cifar10-cnn"]
    assert told["finished"] == ["cifar10-resnet", "energy-cifar10-resnet"]
    assert "go on with cifar10-cnn\n" in err


def test_a_page_alone_resumes_nothing(run) -> None:
    with pytest.raises(DepthlrError, match="leave out --resume-tables"):
        run("--from", "results", "--resume-tables")


def test_a_setting_that_fails_keeps_no_other_from_running(run, capsys, published, tmp_path) -> None:
    shutil.copytree(published / "cifar-100-binary", tmp_path / "some" / "cifar-100-binary")
    settings = [word for name in ("cifar10-cnn", "cifar100-cnn") for word in ("--only", name)]
    arguments = ["main", *settings, "--protocol", "smoke", "--data", "some"]
    with pytest.raises(DepthlrError, match=r"^1 of 2 settings failed, cifar10-cnn \(some holds no cifar10: .*\.$"):
        app([*arguments, "--json"], standalone_mode=False)
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert (told["finished"], told["unfinished"]) == (["cifar100-cnn"], [])
    assert told["failed"]["cifar10-cnn"].startswith("some holds no cifar10")
    assert err.index("cifar10-cnn failed: some holds no cifar10") < err.index("main cifar100-cnn")
    with pytest.raises(DepthlrError):
        app([*arguments, "--work", "another", "--seconds", "0"], standalone_mode=False)
    states = [line.strip("│ ").split()[-1] for line in capsys.readouterr().out.splitlines() if "CIFAR" in line]
    assert states == ["failed", "unfinished"]


def test_a_cause_that_settings_share_is_listed_once_and_the_exit_is_an_errors(run, capsys, monkeypatch) -> None:
    settings = [word for name in ("cifar10-cnn", "cifar10-resnet") for word in ("--only", name)]
    arguments = ["depthlr", "reproduce", "main", *settings, "--protocol", "smoke", "--data", "nowhere"]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("depthlr: 2 of 2 settings failed, cifar10-cnn, cifar10-resnet (nowhere holds no cifar10")


def test_the_verb_passes_usage_errors_and_exit_codes_on(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["depthlr", "reproduce", "--nothing"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert "--nothing" in capsys.readouterr().err
    monkeypatch.setattr("experiments.paper.app.run_job", interrupted)
    monkeypatch.setattr("sys.argv", ["depthlr", "reproduce", "main", "--only", "cifar10-resnet", "--protocol", "smoke"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130


def test_an_installed_package_says_where_the_experiments_are(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr("depthlr.cli.reproduce.CHECKOUT", tmp_path)
    for arguments in (["main"], ["--help"]):
        monkeypatch.setattr("sys.argv", ["depthlr", "reproduce", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "python -m experiments.paper in a checkout" in err


def test_a_damaged_table_counts_as_a_failure(run, tmp_path) -> None:
    arguments = ("main", "--only", "cifar10-resnet", "--protocol", "smoke", "--out", "results")
    run(*arguments)
    table = tmp_path / "results" / "main" / "cifar10-resnet.smoke.csv"
    table.write_text(table.read_text().replace(",loss,", ",lost,"))
    with pytest.raises(DepthlrError, match=r"1 of 1 settings failed, cifar10-resnet .*lacks the column loss"):
        run(*arguments, "--work", "another", "--seconds", "0")


def test_an_interrupted_run_says_how_to_go_on(run, monkeypatch, capsys) -> None:
    monkeypatch.setattr("experiments.paper.app.run_job", interrupted)
    code = app(["main", "--only", "cifar10-resnet", "--protocol", "smoke"], standalone_mode=False)
    assert code == 130
    assert "run the same again to go on" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["mian"], "no recipe 'mian'"),
        (["main", "--only", "cifar"], "no setting 'cifar'"),
        (["main", "--protocol", "full"], "no protocol 'full'"),
        (["main", "--precision", "fp8"], "precision is 'fp8'"),
        (["theory", "--precision", "fp8"], "precision is 'fp8'"),
        (["main", "--seconds", "nan"], "nan seconds are no time"),
        (["main", "--seconds", "-1"], "-1 seconds are no time"),
        (["main", "--page", "page.md"], "name their folder with --from"),
        (["--from", "results", "--protocol", "short"], "leave out --protocol"),
        (["--from", "results", "--at-once", "1"], "leave out --at-once"),
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
