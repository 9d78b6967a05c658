"""Who watches a measurement is told of every batch, by what is measured, and a line on stderr comes and goes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from tests.over_seeds import persistent_energy_over_seeds
from torch import nn

from depthlr import (
    DepthlrError,
    check_transfer,
    persistent_energy,
    suggest_rate,
    transfer_rate,
    update_energy,
    update_energy_over_seeds,
)
from depthlr.cli import main
from depthlr.data.batches import random_batches
from depthlr.energy import progress
from depthlr.energy.progress import count_batch, labelled, measuring, progress_line, stderr_line

BATCHES = random_batches(torch.zeros(1, 6), (1, 3), 16, 7, seed=0)
MANY = random_batches(torch.zeros(1, 6), (1, 3), 16, 34, seed=0)
STEP = {"batches": BATCHES, "loss_fn": F.cross_entropy}


def net(layers: int = 2) -> nn.Module:
    return nn.Sequential(*(part for _ in range(layers) for part in (nn.Linear(6, 6), nn.Tanh())), nn.Linear(6, 3))


@contextmanager
def recorded():
    """What a display is told inside."""
    told: list[tuple[str, int, int]] = []
    opened: list[str] = []

    @contextmanager
    def display():
        opened.append("opened")
        try:
            yield lambda *event: told.append(event)
        finally:
            opened.append("closed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "stderr_line", display)
        yield told
    assert opened == ["opened", "closed"]  # one measurement, whatever it is made of


@pytest.mark.parametrize(
    ("measure", "total", "last"),
    [
        (lambda: update_energy(net(), **STEP), 7, "measuring"),
        (lambda: update_energy_over_seeds(net, range(3), **STEP), 21, "initialization 3 of 3"),
        (lambda: persistent_energy(net(), **STEP), 7, "measuring"),
        (lambda: persistent_energy_over_seeds(net, range(3), **STEP), 21, "initialization 3"),
        (lambda: persistent_energy_over_seeds(net, range(2), MANY, F.cross_entropy), 34, "initialization 2"),
        (lambda: suggest_rate(net(), **STEP), 7, "measuring"),
        (lambda: suggest_rate(net, **STEP, seeds=3), 21, "initialization 3 of 3"),
        (lambda: suggest_rate(net, iter(BATCHES), F.cross_entropy, seeds=2, limit=3), 6, "initialization 2 of 2"),
        (lambda: transfer_rate(0.1, net(2), net(4), **STEP), 14, "target, initialization 1"),
        (lambda: transfer_rate(0.1, net, net(4), **STEP, seeds=3), 28, "source, initialization 3"),
        (lambda: transfer_rate(0.1, net, lambda: net(4), **STEP, seeds=3), 42, "target, initialization 3"),
        (lambda: transfer_rate(0.1, net(2), net(4), rule="am-mup", **STEP), 14, "measuring"),
        (lambda: check_transfer(net, [1, 2], **STEP, seeds=3), 2 * 3 * (1 + 7), "size 2, initialization 3"),
    ],
)
def test_every_batch_is_counted_once(measure, total: int, last: str) -> None:
    with recorded() as told:
        measure()
    done = [done for _, done, _ in told]
    assert sorted(set(done)) == list(range(total + 1))
    assert done == sorted(done)
    assert {count for _, _, count in told} == {total}
    assert [what for what, done, _ in told if done][-1] == last


def test_what_is_measured_is_said_before_its_first_batch() -> None:
    with recorded() as told:
        check_transfer(net, [1, 2], **STEP, seeds=2)
    assert ("size 1, initialization 1 of 2", 0, 32) in told
    assert ("size 1, initialization 1", 4, 32) in told


def test_a_measurement_that_fails_ends_its_line_and_the_next_begins_anew() -> None:
    with recorded() as told, pytest.raises(DepthlrError):
        update_energy(net(), BATCHES[0], lambda output, target: output)
    assert told == [("measuring", 0, 1)]
    with recorded() as told:
        update_energy(net(), BATCHES[0], F.cross_entropy)
    assert told[-1] == ("measuring", 1, 1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(stream: io.StringIO, batches: int, seconds: float) -> str:
    """What stands on the stream after so many batches of so many seconds each."""
    clock = iter(place * seconds for place in range(batches + 1))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stderr", stream)
        patched.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        with stderr_line() as tell:
            for done in range(1, batches + 1):
                tell("size 4", done, batches)
    return stream.getvalue()


def test_a_terminal_has_one_line_with_the_time_left_which_is_erased() -> None:
    said = written(Terminal(), 4, 2.0)
    lines = said.split("\r")
    assert lines[1] == "size 4: [#####...............] 1 of 4 batches, 6 s left"
    assert lines[-3].startswith("size 4: [####################] 4 of 4 batches, 0 s left")
    assert lines[-2].isspace()
    assert lines[-1] == ""
    assert "\n" not in said


def test_what_is_over_at_once_or_watched_by_nobody_writes_nothing() -> None:
    assert written(Terminal(), 4, 0.1) == ""
    assert written(io.StringIO(), 4, 2.0) == ""


def test_a_notebook_has_the_line_too(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert "4 of 4 batches" in written(io.StringIO(), 4, 2.0)


def test_outside_of_a_measurement_a_batch_is_nothing() -> None:
    count_batch()
    with recorded() as told, labelled("nothing is open"), measuring(1), labelled("one"):
        count_batch()
    assert told == [("measuring", 0, 1), ("one", 0, 1), ("one", 1, 1)]
    assert progress_line("one", 1, 2, 3.0).endswith("1 of 2 batches, 3 s left")


MODEL = "mlp?layers=2&width=8&inputs=64"


@pytest.mark.parametrize(
    "arguments",
    [
        ["measure", MODEL, "--seeds", "2"],
        ["suggest", MODEL, "--seeds", "2"],
        ["transfer", "--rate", "0.1", "--from", MODEL, "--to", MODEL.replace("2", "3"), "--rule", "measured"],
        ["check", "mlp?width=8&inputs=64", "--vary", "layers", "--sizes", "1,2", "--seeds", "2"],
    ],
    ids=lambda given: given[0],
)
def test_the_command_line_shows_a_line_on_stderr_of_a_terminal_alone(monkeypatch, capsys, arguments) -> None:
    def run() -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["depthlr", *arguments, "--json"])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code in (0, 1, None)
        return tuple(capsys.readouterr())

    plain, quiet = run()
    assert "batches" not in quiet
    monkeypatch.setattr("depthlr.energy.progress.LINE_DELAY", 0.0)
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: stream is sys.stderr)
    shown, said = run()
    assert "initialization" in said
    assert "batches" in said
    assert json.loads(shown) == json.loads(plain)


def test_the_line_needs_no_rich() -> None:
    code = "import depthlr.energy.progress, depthlr.transfer, sys; print('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
