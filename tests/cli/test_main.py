"""The command as a whole: version, help to the last bracket, readers that go away, terminals that lack characters."""

from __future__ import annotations

import errno
import io
import os
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import typer.rich_utils
from typer.main import get_command

import depthlr
from depthlr.cli import main, options, transfer
from depthlr.cli.app import VERBS, app, module_of
from depthlr.energy import persistent
from depthlr.law.rules import OPTIMIZER_FAMILIES
from depthlr.optimizers import OPTIMIZERS
from depthlr.study import Data, Search, Training, sweep
from depthlr.training.training import SCHEDULES
from depthlr.transfer import rules
from experiments.landscape import LandscapeExecutor, landscape, study
from experiments.paper.app import app as paper


@pytest.fixture
def run(monkeypatch):
    """The exit code of a command."""

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["depthlr", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0)

    return run


def test_the_version_is_the_packages_own(run, capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"depthlr {depthlr.__version__}\n"
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["version"] == depthlr.__version__


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_shows_all_that_is_documented_and_every_default(run, capsys, monkeypatch, verb):
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 1000)  # no line is broken
    assert run(verb, "--help") == 0
    shown = " ".join(re.sub(r"[│\s]+", " ", capsys.readouterr().out).split())
    command = get_command(paper) if verb == "reproduce" else get_command(app).commands[verb].load()
    assert command.params
    for parameter in command.params:
        written = (getattr(parameter, "help", None) or "").replace("\\[", "[")
        assert " ".join(written.split()) in shown
        if isinstance(parameter.show_default, str):
            assert f"[default: ({parameter.show_default})]" in shown
        elif parameter.default not in (None, False, ()):
            assert f"[default: {parameter.default}]" in shown


@pytest.mark.parametrize("verb", VERBS)
def test_the_line_of_a_verb_in_the_help_is_its_own(verb):
    told = getattr(import_module(module_of(verb)), f"{verb}_command").__doc__
    assert VERBS[verb] == told.splitlines()[0]


def test_what_the_verbs_know_without_torch_is_what_the_layers_below_say():
    assert options.DEFAULT_SEEDS == persistent.SEEDS
    for name in (*transfer.MEASURING_RULES, *transfer.RULES):
        by_depth = isinstance(rules.make_rule(name), rules.ByDepth)
        assert by_depth is (name not in transfer.MEASURING_RULES)
    assert list(OPTIMIZER_FAMILIES) == list(OPTIMIZERS)
    assert transfer.SCHEDULES == SCHEDULES


def test_the_defaults_in_the_help_of_a_sweep_are_the_studys(run, capsys, monkeypatch):
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 1000)
    run("sweep", "--help")
    shown = dict(re.findall(r"--(\w+) .*\[default: \((.*)\)\]", capsys.readouterr().out))
    training, search = Training(steps=100), Search()
    assert (shown["data"], shown["optimizer"], shown["search"]) == (Data().name, training.optimizer, search.kind)
    assert (int(shown["batch"]), int(shown["steps"])) == (training.batch, training.steps)
    assert (float(shown["low"]), float(shown["high"])) == (search.low, search.high)
    assert (int(shown["points"]), int(shown["seeds"])) == (search.points, len(search.seeds))


@pytest.mark.parametrize(
    "arguments",
    [
        ["depth", "mlp?layers=3&width=8&inputs=4"],
        ["depth", "mlp?layers=3&width=8&inputs=4", "--json"],
        ["transfer", "--rate", "0.1", "--from", "4", "--to", "8"],
        ["--help"],
        ["--version"],
    ],
)
def test_a_reader_that_went_away_is_left_in_peace(run, capfd, monkeypatch, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert run(*arguments) == 1
    assert "Traceback" not in capfd.readouterr().err


def test_nor_is_there_a_word_at_the_exit():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "depthlr", "--version"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_reader_of_the_notes_alone_that_went_away_does_not_take_the_result_along():
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "depthlr", "transfer", "--rate", "0.1", "--from", "4", "--to", "8"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=writer)
    os.close(writer)
    assert (done.returncode, done.stdout) == (1, b"3.54e-2\n")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    given = landscape(7, study(sizes=(3, 6)))
    path = tmp_path_factory.mktemp("swept") / "s.sqlite"
    sweep(given.study, LandscapeExecutor(given), path, depths={3: 4, 6: 7})
    return str(path)


@pytest.mark.parametrize(
    "arguments",
    [
        ["depth", "mlp?layers=3&width=8&inputs=4"],
        ["depth", "mlp?layers=3&width=8&inputs=4", "--json"],
        ["fit", "S"],
        ["export", "S"],
        ["report", "S", "--format", "json"],
        ["--help"],
    ],
    ids=lambda a: "-".join(a[:1] + a[2:]),
)
def test_a_result_for_a_closed_stdout_goes_nowhere(run, capsys, monkeypatch, swept, arguments):
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        assert run(*(swept if word == "S" else word for word in arguments)) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_nor_does_an_error_for_a_closed_stderr_go_among_the_results(run, capsys, monkeypatch):
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stderr", None)
        assert run("depth", "mlp?layers=0") == 2
    assert capsys.readouterr().out == ""


CLOSED = """
import os, sys
os.close(1)
sys.stdout, sys.argv = None, ["depthlr", "--version"]
from depthlr.cli import main, options, transfer
try:
    main()
except SystemExit:
    print(os.path.samestat(os.fstat(1), os.stat(os.devnull)), file=sys.stderr)
"""


def test_a_closed_stdout_is_nobodys_file():
    """The first file that is opened would else be what everybody's output is written to."""
    done = subprocess.run([sys.executable, "-c", CLOSED], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"True\n")


def test_a_terminal_that_lacks_a_character_is_shown_another(tmp_path):
    (tmp_path / "optima.csv").write_text("depth,rate\n4,0.1\n8,0.05\n16,0.02\n")

    def fit(name: str, encoding: str) -> tuple[list[str], str]:
        command = [sys.executable, "-m", "depthlr", "fit", name]
        streams = {"cwd": tmp_path, "env": os.environ | {"PYTHONIOENCODING": encoding}, "capture_output": True}
        done = subprocess.run(command, **streams)
        return done.stdout.decode(encoding).splitlines()[-1:], done.stderr.decode(encoding)

    for name in ("optima.csv", "größe.csv"):  # the one has ± and ² on stdout, the other its name on stderr
        full, plain = fit(name, "utf-8"), fit(name, "ascii")
        assert not str(full).isascii()
        assert str(plain) == re.sub("[^ -~]", "?", str(full))


@pytest.mark.parametrize("large", [False, True])
def test_a_stdout_that_is_full_is_one_sentence(run, capsys, monkeypatch, tmp_path, large):
    """Small results fail when they are flushed, large ones while they are written."""

    class Full(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, content: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def fileno(self) -> int:
            return file.fileno()

    with (tmp_path / "stdout").open("wb") as file:
        stdout = io.TextIOWrapper(io.BufferedWriter(Full()))
        monkeypatch.setattr(sys, "stdout", stdout)
        assert run("depth", f"mlp?layers={200 if large else 2}&width=8&inputs=4", "--json") == 2
        monkeypatch.undo()
        err = capsys.readouterr().err
        stdout.buffer.raw.write = len
        stdout.close()
    assert err.count("\n") == 1
    assert err == "depthlr: [Errno 28] No space left on device\n"


LONG = "a" * 300  # more than a file's name may have


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", LONG],
        ["reproduce", "--from", LONG],
        ["report", LONG],
        ["export", LONG],
        ["fit", LONG],
        ["sweep", LONG],
        ["plot", LONG, "--out", "picture.png"],
        ["depth", f"{LONG}.py:build"],
        ["data", "cifar10", "--folder", LONG],
        ["transfer", "--rate", "0.1", "--from", f"{LONG}.py:build", "--to", "8"],
    ],
    ids=lambda a: a[0],
)
def test_a_name_that_no_file_can_have_is_a_sentence(run, capsys, tmp_path, monkeypatch, arguments) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(*arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("depthlr: ")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["depth", f"mlp?layers={'9' * 5000}"],
        ["depth", "mlp", "--input", "9" * 5000],
        ["measure", "mlp", "--batch", str(10**12)],
        ["measure", "mlp", "--batch", "9" * 30],
        ["sweep", "study.toml", "--seeds", "99999999999"],
        ["sweep", "deep.toml"],
        ["sweep", "digits.toml"],
        ["sweep", "seed.toml"],
    ],
    ids=lambda a: "-".join(a)[:24],
)
def test_numbers_without_end_are_sentences(run, capsys, tmp_path, monkeypatch, arguments) -> None:
    monkeypatch.chdir(tmp_path)
    model = '[model]\nspec = "mlp"\nvary = "layers"\nsizes = [2, 3]\n'
    Path("study.toml").write_text(model)
    Path("deep.toml").write_text(f"{model}[search]\nseeds = {'[' * 5000}{']' * 5000}\n")
    Path("digits.toml").write_text(f"{model}[search]\npoints = {'9' * 5000}\n")
    Path("seed.toml").write_text(f"{model}[search]\nseeds = [{2**63}]\n")
    assert run(*arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("depthlr: ")
    assert said.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep.toml", "digits.toml", "seed.toml", "study.toml"]
