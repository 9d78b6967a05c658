"""The user's own training script as an executor: one command for each cell.

`python train.py --lr {rate} --layers {size} --seed {seed}` is run with the three numbers filled in. Its loss is the
last line of standard output that is a JSON object with `loss`, or it stands in a file that the command writes.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import os
import queue
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from string import Formatter
from typing import IO, Any

import numpy as np
import torch

from depthlr import check
from depthlr.errors import DepthlrError, did_you_mean
from depthlr.training.cell import Cell, Evaluation, Outcome, failed_outcome, has_diverged
from depthlr.training.executor import Executor, Handle, Limits

FIELDS = ("rate", "size", "seed")
KEY = "loss"
GRACE = 10.0  # seconds that a command has to end its own processes, as torchrun does, before it is killed
LEFTOVER = 1.0  # seconds to read on after the command ended, where a process that it left behind holds its output
TAIL = 4096  # bytes of standard error in which its last line is looked for


def template_fields(entry: str, template: object) -> set[str]:
    """The fields among {rate}, {size} and {seed} that a text has; any other brace is refused."""
    text = check.text(entry, template)
    try:
        found = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise DepthlrError(f"{entry} is {text!r} ({error}): write {{{{ and }}}} for braces of its own.") from error
    for name, spec, conversion in found:
        if name not in FIELDS or spec or conversion:
            raise DepthlrError(
                f"{entry} has {{{name}{':' if spec else ''}{spec}}}{did_you_mean(name, FIELDS)}: it takes {{rate}}, "
                "{size} and {seed}; write {{ and }} for braces of its own."
            )
    return {name for name, _, _ in found}


def fill_template(template: str, cell: Cell) -> str:
    """The text with a cell's numbers; a rate as Python writes it, which reads back the same."""
    return template.format(rate=repr(cell.rate), size=cell.size, seed=cell.seed)


def read_report(line: str, key: str = KEY) -> dict[str, Any] | None:
    """The object on a line of output, if it is one that holds `key`: JSON, or a Python dict as Hugging Face prints."""
    text = line.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            found = parse(text)
            return found if isinstance(found, dict) and key in found else None
    return None


class Commands(Executor):
    """Runs a command for each cell, several at a time.

    Args:
        command: The command, with {rate}, {size} and {seed}; `{{` and `}}` stand for braces.
        workers: How many run at a time. None takes one per GPU, or one without a GPU.
        limits: The time limit of a cell, and how often it is tried again if a signal ended its process.
        result: A file that the command writes, with the same fields: JSON, JSON lines, or CSV, whose last row counts.
        key: The entry that holds the loss.
        shell: Let a shell read the command. Without one it is split as a shell would split it.
    """

    def __init__(
        self,
        command: str,
        workers: int | None = None,
        limits: Limits | None = None,
        *,
        result: str | None = None,
        key: str = KEY,
        shell: bool = False,
    ) -> None:
        super().__init__()
        self._gpus = visible_gpus()
        self.capacity = workers or max(1, len(self._gpus))
        self._command, self._limits = command, limits or Limits()
        self._result, self._key, self._shell = result, key, shell
        self._running: dict[int, _Run] = {}  # by slot, which decides the GPU
        self._events: queue.SimpleQueue[tuple[_Run, Mapping[str, Any] | None]] = queue.SimpleQueue()

    def work(self, timeout: float | None = None) -> None:
        self._begin()
        if not self._running:
            return
        limit = self._limits.timeout
        left = [limit - run.seconds for run in self._running.values() if limit is not None and run.ended is None]
        wait = min([*left, *([] if timeout is None else [timeout])], default=None)
        with suppress(queue.Empty):
            self._take(*self._events.get(timeout=None if wait is None else max(0.0, wait)))
            while True:
                self._take(*self._events.get_nowait())
        for run in list(self._running.values()):
            if limit is not None and run.ended is None and run.seconds > limit:
                run.end(failed_outcome(f"it took longer than {limit:g} s", run.seconds))
        self._begin()

    def stop(self, handle: Handle) -> bool:
        for run in self._running.values():
            if run.handle is handle:
                run.end(failed_outcome("cancelled", run.seconds))
        return True

    def close(self) -> None:
        """End the commands, and wait until they are gone."""
        for run in self._running.values():
            run.end(failed_outcome("closed", run.seconds))
        while self._running:
            self._take(*self._events.get())

    def _begin(self) -> None:
        for slot in range(self.capacity):
            if slot in self._running or (handle := self._next()) is None:
                continue
            try:
                self._running[slot] = self._start(handle, slot)
            except OSError as error:
                self._finish(handle, failed_outcome(f"the command cannot be started ({error})", 0.0))

    def _start(self, handle: Handle, slot: int) -> _Run:
        cell = handle.cell
        words = [fill_template(word, cell) for word in shlex.split(self._command)]
        gpu = {"CUDA_VISIBLE_DEVICES": self._gpus[slot % len(self._gpus)]} if self._gpus else {}
        errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the run)
        process = subprocess.Popen(
            fill_template(self._command, cell) if self._shell else words,
            shell=self._shell,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **gpu},  # so that losses arrive when they are printed
            start_new_session=True,  # one signal reaches all its processes, and Ctrl-C reaches none of them
        )
        run = _Run(handle, process, errors, _file_stamp(self._result and fill_template(self._result, cell)))
        threading.Thread(target=self._follow, args=(run,), daemon=True).start()
        return run

    def _follow(self, run: _Run) -> None:
        """In a thread: tell of every loss that is printed, and of the end."""
        reader = threading.Thread(target=self._read, args=(run,), daemon=True)
        reader.start()
        run.process.wait()
        run.signal(signal.SIGKILL)  # what it left behind in its group
        reader.join(LEFTOVER)
        self._events.put((run, None))

    def _read(self, run: _Run) -> None:
        assert run.process.stdout is not None
        with run.process.stdout as lines:
            for line in lines:
                found = read_report(line.decode(errors="replace"), self._key)
                if found is not None:
                    self._events.put((run, found))

    def _take(self, run: _Run, found: Mapping[str, Any] | None) -> None:
        """A loss that a command printed, or its end."""
        slot = next((slot for slot, known in self._running.items() if known is run), None)
        if slot is None:
            return
        if found is not None:
            run.report(found, self._key)
            return
        del self._running[slot]
        code = run.process.returncode
        reason = run.last_error()
        run.close()
        if run.ended is not None:
            self._finish(run.handle, run.ended)
        elif code < 0:
            died = failed_outcome(f"its process died (signal {signal.Signals(-code).name})", run.seconds)
            self._lose(run.handle, self._limits.retries, died)
        elif code:
            self._finish(run.handle, failed_outcome(reason or f"exit code {code}", run.seconds))
        else:
            self._finish(run.handle, self._outcome(run))

    def _outcome(self, run: _Run) -> Outcome:
        """Of a command that succeeded."""
        if self._result is None:
            if run.last is None:
                return failed_outcome(f"it printed no line of JSON with {self._key!r}", run.seconds)
            return run.outcome(run.last, self._key)
        path = Path(fill_template(self._result, run.handle.cell))
        if _file_stamp(str(path)) in (None, run.written):
            return failed_outcome(f"it wrote no {path}", run.seconds)
        try:
            found = _read_result(path, self._key)
        except (OSError, ValueError, RecursionError) as error:
            return failed_outcome(f"{path} cannot be read ({error})", run.seconds)
        if found is None:
            return failed_outcome(f"{path} has no {self._key!r}", run.seconds)
        return run.outcome(found, self._key)


class _Run:
    """A command that runs, and what it has printed."""

    def __init__(self, handle: Handle, process: subprocess.Popen[bytes], errors: IO[bytes], written: object) -> None:
        self.handle, self.process, self.written = handle, process, written
        self.last: Mapping[str, Any] | None = None
        self.ended: Outcome | None = None  # decided before the command ended
        self._errors = errors
        self._losses: list[float] = []
        self._started = time.monotonic()
        self._killer: threading.Timer | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def report(self, found: Mapping[str, Any], key: str) -> None:
        """A line with a loss; a command whose loss has diverged is ended."""
        self.last = found
        self._losses.append(_number(found[key]))
        if self.ended is None and has_diverged(_single([self._losses[0], self._losses[-1]])):
            self.end(Outcome(_single(self._losses), self.seconds, True))

    def outcome(self, found: Mapping[str, Any], key: str) -> Outcome:
        """The outcome with this final loss, and the accuracy beside it, if there is one."""
        loss, accuracy = _number(found[key]), _number(found.get("accuracy"))
        steps = max(1, len(self._losses))
        evaluation = Evaluation(steps, loss, accuracy if 0 <= accuracy <= 1 else None)
        diverged = not math.isfinite(loss)
        evaluations = () if diverged or evaluation.accuracy is None else (evaluation,)
        return Outcome(_single(self._losses), self.seconds, diverged, evaluations, loss=loss)

    def end(self, outcome: Outcome) -> None:
        """Ask the command to end; it has this outcome."""
        if self.ended is None:
            self.ended = outcome
            self.signal(signal.SIGTERM)
            self._killer = threading.Timer(GRACE, self.signal, [signal.SIGKILL])
            self._killer.daemon = True
            self._killer.start()

    def signal(self, number: int) -> None:
        """To all processes of the command's group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def last_error(self) -> str:
        """The last line of standard error."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - TAIL))
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        self._errors.close()
        if self._killer is not None:
            self._killer.cancel()


def visible_gpus() -> list[str]:
    """The GPUs that commands may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(index) for index in range(torch.cuda.device_count())]
    return [name.strip() for name in named.split(",") if name.strip()]


def _file_stamp(path: str | None) -> tuple[int, int, int] | None:
    """What tells a file that was written since from the one that was there before."""
    try:
        found = None if path is None else os.stat(path)
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def _read_result(path: Path, key: str) -> Mapping[str, Any] | None:
    """The object of a result file that holds the loss: the whole file, its last line with one, or its last row."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".csv":
        rows = [row for row in csv.DictReader(text.splitlines()) if row.get(key)]
        return rows[-1] if rows else None
    with suppress(ValueError):
        whole = json.loads(text)
        return whole if isinstance(whole, dict) and key in whole else None
    found = [one for one in (read_report(line, key) for line in text.splitlines()) if one is not None]
    return found[-1] if found else None


def _number(value: object) -> float:
    """A number, or a text of one; NaN for anything else, as for the null that some write in its place."""
    try:
        return math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _single(losses: list[float]) -> np.ndarray[Any, np.dtype[np.float32]]:
    with np.errstate(over="ignore"):
        return np.array(losses, dtype=np.float32)
