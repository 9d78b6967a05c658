"""A command as a cell: how it is filled in, what counts as its loss, and how it is ended."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthlr.errors import DepthlrError
from depthlr.training import Cell, Commands, Outcome, Training
from depthlr.training.command import fill_template, read_report, template_fields, visible_gpus
from depthlr.training.executor import Attempt

CELL = Cell(4, 1, 0.00012345678)
FIELDS = "{rate} {size} {seed}"


def run(code: str, cell: Cell = CELL, words: str = FIELDS, **options) -> Outcome:
    """The outcome of a Python program with the cell's numbers as its arguments."""
    executor = Commands(
        f"{sys.executable} -S -c {shlex.quote(code).replace('{', '{{').replace('}', '}}')} {words}", 1, **options
    )
    try:
        ((_, outcome),) = executor.train([cell])
        return outcome
    finally:
        executor.close()


@given(st.text())
def test_any_text_is_a_command_once_its_braces_are_doubled(text: str) -> None:
    template = text.replace("{", "{{").replace("}", "}}") + "{size}"
    assert fill_template(template, CELL) == text + "4"


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_rate_is_written_so_that_it_reads_back_the_same(rate: float) -> None:
    assert float(fill_template("{rate}", Cell(1, 0, rate))) == rate


@given(st.text() | st.builds(json.dumps, st.dictionaries(st.text(), st.integers() | st.text() | st.none())))
def test_any_line_is_read_without_an_error(line: str) -> None:
    found = read_report(line)
    assert found is None or "loss" in found


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        ('{"loss": 0.5}', 0.5),
        ('  {"step": 3, "loss": 1e-3}\r\n', 1e-3),
        ("{'loss': 0.25, 'learning_rate': 5e-05, 'epoch': 1.0}", 0.25),  # as Hugging Face prints it
        ('{"loss": {"train": 1}}', {"train": 1}),
    ],
)
def test_a_line_with_a_loss_is_found(line: str, loss: object) -> None:
    assert read_report(line)["loss"] == loss


@pytest.mark.parametrize("line", ["", "loss 0.5", '{"accuracy": 1}', '["loss"]', "{loss}", '{"loss": 1} done'])
def test_a_line_without_a_loss_is_passed_over(line: str) -> None:
    assert read_report(line) is None


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("train {lr} {size}", "has {lr}.*it takes {rate}, {size} and {seed}; write {{ and }}"),
        ("train {rat} {size}", r"did you mean 'rate'\?"),
        ("train {rate:.2g} {size}", "has {rate:.2g}"),
        ("train {0} {size}", "has {0}"),
        ("train {rate {size}", "for braces of its own"),
        ("train } {size}", "for braces of its own"),
    ],
)
def test_other_braces_are_refused_with_what_to_write(template: str, message: str) -> None:
    with pytest.raises(DepthlrError, match=message):
        template_fields("training.command", template)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"command": "train {rate}"}, "write {rate} and {size}"),
        ({"command": "train {size}"}, "write {rate} and {size}"),
        ({"command": "train '{rate} {size}"}, "close the quotes"),
        ({"command": "train {rate} {size}", "result": "out.json"}, "write {rate}, {size} into it"),
        ({"command": "train {rate} {size}", "optimizer": "adam"}, "training.optimizer is set beside training.command"),
        ({"command": "train {rate} {size}", "steps": 10}, "training.command is set, but steps or epochs are set too"),
        ({"result": "{rate}", "steps": 10}, "training.result is set, but there is no training.command"),
    ],
)
def test_what_is_wrong_with_a_command_is_one_sentence(entries: dict[str, object], message: str) -> None:
    with pytest.raises(DepthlrError, match=message) as caught:
        Training(**entries)
    assert "\n" not in str(caught.value)


def test_hydra_overrides_keep_their_braces() -> None:
    code = "import sys, json; print(json.dumps({'loss': 1.0 * (sys.argv[1] == 'optim={lr:0.5,layers:4}')}))"
    assert run(code, Cell(4, 0, 0.5), "optim={{lr:{rate},layers:{size}}}").loss == 1.0


def test_the_last_line_with_a_loss_counts_and_accuracy_is_kept() -> None:
    code = """
import json, sys
rate, size, seed = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
print(json.dumps({"loss": 3.0}))
print(json.dumps({"loss": rate * size + seed, "accuracy": 0.75}))
print("done")
"""
    found = run(code)
    assert found.failure is None
    assert found.loss == CELL.rate * 4 + 1  # to the last bit
    assert [float(loss) for loss in found.losses] == pytest.approx([3.0, found.loss])
    assert [(one.loss, one.accuracy) for one in found.evaluations] == [(found.loss, 0.75)]


def test_an_accuracy_that_is_no_share_is_told_once_and_not_kept() -> None:
    code = "import json; print(json.dumps({'loss': 1.0, 'accuracy': 75}))"
    command = f"{sys.executable} -S -c {shlex.quote(code).replace('{', '{{').replace('}', '}}')} {FIELDS}"
    executor = Commands(command, 1)
    with pytest.warns(UserWarning, match="the accuracy 75, which is not kept: print a share, 0 to 1") as warned:
        found = list(executor.train([CELL, Cell(4, 2, 0.1)]))
    executor.close()
    assert len(warned) == 1
    assert [(outcome.loss, outcome.evaluations) for _, outcome in found] == [(1.0, ()), (1.0, ())]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("accuracy", ["0", "1", "null", "NaN"])
def test_no_accuracy_and_any_share_are_fine(accuracy: str) -> None:
    assert run(f"""print('{{"loss": 1.0, "accuracy": {accuracy}}}')""").loss == 1.0


def test_no_shell_reads_a_command_unless_it_is_asked() -> None:
    code = "import sys, json; print(json.dumps({'loss': len(sys.argv)}))"
    assert run(code, words="{rate} {size} ; exit 3").loss == 6
    assert run(code, words="{rate} {size} && exit 3", shell=True).failure == "exit code 3"


@pytest.mark.parametrize("losses", [[1.0, math.nan], [1.0, math.inf], [0.5, 1001.0], [5.0, 5001.0], [None]])
def test_a_command_whose_losses_diverge_is_ended_and_has_diverged(losses: list[float | None]) -> None:
    code = f"""
import json, threading
for loss in json.loads('{json.dumps(losses)}'):
    print(json.dumps({{"loss": loss}}))
threading.Event().wait()
"""
    found = run(code)
    assert found.diverged
    assert found.failure is None
    assert len(found.losses) == len(losses)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; print('first', file=sys.stderr); sys.exit('no data\\n')", "no data"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("raise ValueError('odd')", "ValueError: odd"),
        (
            "print('loss 1')",
            "it printed no line of JSON with 'loss': let it print(json.dumps({\"loss\": loss}))",
        ),
        (
            """print('{"val_loss": 1.5, "lr": 0.1, "layers": 2}')""",
            "it printed no line of JSON with 'loss'; its last JSON line has val_loss, lr, layers: "
            "set key to the one that is the loss",
        ),
    ],
)
def test_a_command_that_fails_says_why(code: str, reason: str) -> None:
    found = run(code)
    assert found.failure == reason
    assert found.diverged


def test_a_command_that_cannot_be_started_is_a_sentence() -> None:
    executor = Commands("/no/such/program {rate} {size}", 1)
    with pytest.raises(DepthlrError, match=r"cannot be started .*no/such/program"):
        list(executor.train([CELL]))


WRITES = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
PLACE = "{size}-{rate}"


@pytest.mark.parametrize(
    ("suffix", "key", "text"),
    [
        (".json", "loss", '{"loss": 0.5, "accuracy": 0.25}'),
        (".json", "eval_loss", '{\n "eval_loss": 0.5,\n "epoch": 3\n}\n'),
        (".jsonl", "loss", '{"loss": 2}\n{"loss": 0.5}\n{"done": true}\n'),
        (".csv", "eval_loss", "epoch,train_loss,eval_loss\n0,3.0,1.0\n1,2.0,0.5\n"),  # as timm writes summary.csv
    ],
)
def test_a_loss_is_read_from_the_file_that_the_command_writes(tmp_path: Path, suffix: str, key: str, text: str) -> None:
    place = f"{tmp_path}/{PLACE}{suffix}"
    found = run(
        WRITES, words=f"{place} {shlex.quote(text).replace('{', '{{').replace('}', '}}')}", result=place, key=key
    )
    assert (found.failure, found.loss) == (None, 0.5)


def test_a_file_of_an_earlier_run_is_no_result(tmp_path: Path) -> None:
    place = f"{tmp_path}/{PLACE}.json"
    Path(fill_template(place, CELL)).write_text('{"loss": 1}')
    missing = run("pass", result=place)
    assert missing.failure.startswith(f"it wrote no {fill_template(place, CELL)}: ")
    keyless = run(WRITES, words=f"{place} nothing", result=place)
    assert keyless.failure.startswith(f"{fill_template(place, CELL)} has no 'loss': ")
    assert missing.is_general
    assert keyless.is_general


def test_commands_share_the_gpus_that_are_visible(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-5,7")
    assert visible_gpus() == ["3", "GPU-5", "7"]
    code = "import os, json; print(json.dumps({'loss': 1, 'gpu': os.environ['CUDA_VISIBLE_DEVICES']}))"
    code += "; open(os.path.join(os.environ['OUT'], os.environ['CUDA_VISIBLE_DEVICES']), 'w')"
    monkeypatch.setenv("OUT", str(tmp_path))
    command = f"{sys.executable} -S -c {shlex.quote(code).replace('{', '{{').replace('}', '}}')} {FIELDS}"
    executor = Commands(command)
    assert executor.capacity == 3
    assert len(list(executor.train([Cell(1, seed, 0.1) for seed in range(3)]))) == 3
    assert {path.name for path in tmp_path.iterdir()} == {"3", "GPU-5", "7"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == []


def test_a_command_that_is_cancelled_takes_its_processes_with_it(tmp_path: Path) -> None:
    """A child process holds a pipe open: its end is read once the child is gone."""
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    child = "import sys, threading; held = open(sys.argv[1], 'w'); print('x', file=held, flush=True); "
    child += "threading.Event().wait()"
    code = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', {child!r}, {str(tmp_path / 'pipe')!r}])"
    )
    executor = Commands(f"{sys.executable} -S -c {shlex.quote(code)} {FIELDS}", 1)
    (job,) = executor._submit([Attempt(CELL)])
    seen = b""
    while len(seen) < 2:
        with suppress(BlockingIOError):
            seen += os.read(reading, 10)
    executor._end([job])
    os.set_blocking(reading, True)
    assert os.read(reading, 10) == b""
    os.close(reading)
