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
import shlex
import signal
import subprocess
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np
import torch

from depthlr import check
from depthlr.errors import DepthlrError, did_you_mean
from depthlr.training.cell import Cell, Evaluation, Outcome, failed_outcome, has_diverged
from depthlr.training.executor import Attempt, JobExecutor, Limits

FIELDS = ("rate", "size", "seed")
KEY = "loss"
GRACE = 10.0  # seconds that a command has to end its own processes, as torchrun does, before it is killed
READ = 1 << 20  # bytes of standard output that are read at a time
TAIL = 4096  # bytes of standard error in which its last line is looked for


def template_fields(entry: str, template: object) -> set[str]:
    """The fields among {rate}, {size} and {seed} that a text has; any other brace is refused.

    Args:
        entry: What errors call the text.
        template: The text.
    """
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
    """The text with a cell's numbers; a rate as Python writes it, which reads back the same.

    Args:
        template: The text with {rate}, {size} and {seed}.
        cell: The cell.
    """
    return template.format(rate=repr(cell.rate), size=cell.size, seed=cell.seed)


def read_report(line: str, key: str = KEY) -> dict[str, Any] | None:
    """The object on a line of output, if it is one that holds `key`: JSON, or a Python dict as Hugging Face prints.

    Args:
        line: The line.
        key: The entry that holds the loss.
    """
    found = _read_object(line)
    return None if found is None or key not in found else found


class Commands(JobExecutor):
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
        gpus: list[str | None] = [*visible_gpus()]
        super().__init__(workers or max(1, len(gpus)), limits)
        self._free_gpus = deque(islice(cycle(gpus or [None]), self.capacity))  # one for each command that may run
        self._command, self._result, self._key, self._shell = command, result, key, shell
        self._warned = False

    def _submit(self, attempts: Sequence[Attempt]) -> Iterator[_Run]:
        for cell in (attempt.cell for attempt in attempts):
            line: str | list[str] = fill_template(self._command, cell)
            if not self._shell:
                line = [fill_template(word, cell) for word in shlex.split(self._command)]
            result = None if self._result is None else Path(fill_template(self._result, cell))
            yield _Run(line, self._free_gpus.popleft(), self._key, result)

    def _outcome(self, job: _Run) -> Outcome | str:
        found = job.outcome()
        if job.odd_accuracy is not None and not self._warned:
            self._warned = True
            warnings.warn(
                f"training.command gave the accuracy {job.odd_accuracy:g}, which is not kept: print a share, 0 to 1.",
                stacklevel=2,
            )
        self._release(job)
        return found

    def _end(self, jobs: Sequence[_Run]) -> None:
        for run in jobs:
            run.signal(signal.SIGTERM)  # all of them, before any is waited for
        for run in jobs:
            run.wait()
            self._release(run)

    def _release(self, job: _Run) -> None:
        self._free_gpus.append(job.gpu)
        job.close()


class _Run:
    """A command that runs, and the losses that it has printed."""

    def __init__(self, line: str | list[str], gpu: str | None, key: str, result: Path | None) -> None:
        self.gpu, self._key, self._result = gpu, key, result
        self._before = _file_stamp(result)
        self._started = time.monotonic()
        self._losses: list[float] = []
        self._last: Mapping[str, Any] | None = None
        self._other: Mapping[Any, Any] = {}  # the last object without the key
        self._diverged = False
        self.odd_accuracy: float | None = None  # that is no share, once the command is done
        self._read, self._rest = 0, b""  # bytes that were read, and the line that is not complete
        # Files, so that a command never waits for its reader, and a process that it leaves behind holds up nothing.
        self._output, self._errors = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115 (closed by `close`)
        try:
            self._process = subprocess.Popen(
                line,
                shell=isinstance(line, str),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._errors,
                # Unbuffered, so that losses arrive when they are printed.
                env={**os.environ, "PYTHONUNBUFFERED": "1", **({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})},
                start_new_session=True,  # one signal reaches all its processes, and Ctrl-C reaches none of them
            )
        except OSError as error:
            self.close()
            raise DepthlrError(f"training.command cannot be started ({error}): correct it.") from error

    def done(self) -> bool:
        """Read what was printed. A command whose loss has diverged is ended."""
        ended = self._process.poll() is not None
        if ended:
            self.signal(signal.SIGKILL)  # what it left behind in its group
        self._read_losses(ended)
        if self._diverged and not ended:
            self.signal(signal.SIGTERM)
            self.wait()
        return ended or self._diverged

    def outcome(self) -> Outcome | str:
        """Return what came of a command that is done, or how it died."""
        seconds = time.monotonic() - self._started
        if self._diverged:
            return Outcome(_single(self._losses), seconds, True)
        code = self._process.returncode
        if code < 0:
            return f"its process died (signal {signal.Signals(-code).name})"
        if code:
            return failed_outcome(self._last_error() or f"exit code {code}", seconds)
        try:
            found = self._last if self._result is None else self._read_result(self._result)
        except DepthlrError as error:
            return failed_outcome(str(error), seconds, is_general=True)
        if found is None:
            return failed_outcome(_no_loss(self._key, self._other), seconds, is_general=True)
        loss, accuracy = _number(found[self._key]), _number(found.get("accuracy"))
        diverged = not math.isfinite(loss)
        evaluations: tuple[Evaluation, ...] = ()
        if not 0 <= accuracy <= 1:
            self.odd_accuracy = None if math.isnan(accuracy) else accuracy
        elif not diverged:
            evaluations = (Evaluation(max(1, len(self._losses)), loss, accuracy),)
        return Outcome(_single(self._losses), seconds, diverged, evaluations, loss=loss)

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the command's group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def wait(self) -> None:
        """Wait until the command has ended, or kill it."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self.signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        self._output.close()
        self._errors.close()

    def _read_losses(self, ended: bool) -> None:
        while new := os.pread(self._output.fileno(), READ, self._read):  # the file's own position is the command's
            self._read += len(new)
            *lines, self._rest = (self._rest + new).split(b"\n")
            for line in lines:
                self._read_line(line)
        if ended:
            self._read_line(self._rest)

    def _read_line(self, line: bytes) -> None:
        found = _read_object(line.decode(errors="replace"))
        if found is not None and self._key not in found:
            self._other = found
        elif found is not None and not self._diverged:
            self._last = found
            self._losses.append(_number(found[self._key]))
            self._diverged = has_diverged(_single([self._losses[0], self._losses[-1]]))

    def _last_error(self) -> str:
        """The last line of standard error."""
        size = os.fstat(self._errors.fileno()).st_size
        text = os.pread(self._errors.fileno(), TAIL, max(0, size - TAIL)).decode(errors="replace")
        return next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "")

    def _read_result(self, path: Path) -> Mapping[str, Any]:
        """The object with the loss in the file that the command wrote."""
        if _file_stamp(path) in (None, self._before):
            raise DepthlrError(f"it wrote no {path}: let training.result name the file that it writes")
        try:
            found = read_result(path, self._key)
        except (OSError, ValueError, RecursionError) as error:
            raise DepthlrError(f"{path} cannot be read ({error})") from error
        if found is None:
            raise DepthlrError(f"{path} has no {self._key!r}: set key to the entry that is the loss")
        return found


def visible_gpus() -> list[str]:
    """The GPUs that commands may use, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(index) for index in range(torch.cuda.device_count())]
    return [name.strip() for name in named.split(",") if name.strip()]


def _file_stamp(path: Path | None) -> tuple[int, int, int] | None:
    """What tells a file that was written since from the one that was there before."""
    if path is None or not path.exists():
        return None
    found = path.stat()
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def read_result(path: Path, key: str) -> Mapping[str, Any] | None:
    """The object of a result file that holds the loss: the whole file, its last line with one, or its last row.

    Args:
        path: The file.
        key: The entry that holds the loss.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".csv":
        rows = [row for row in csv.DictReader(text.splitlines()) if row.get(key)]
        return rows[-1] if rows else None
    with suppress(ValueError):
        whole = json.loads(text)
        return whole if isinstance(whole, dict) and key in whole else None
    reports = filter(None, (read_report(line, key) for line in reversed(text.splitlines())))
    return next(reports, None)


def _read_object(line: str) -> dict[Any, Any] | None:
    text = line.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return None
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            found = parse(text)
            return found if isinstance(found, dict) else None
    return None


def _no_loss(key: str, other: Mapping[Any, Any]) -> str:
    """Why a command that printed no loss has none, and the key that its last line asks for.

    Args:
        key: The key that was looked for.
        other: The last object that it printed, or an empty one.
    """
    missing = f"it printed no line of JSON with {key!r}"
    if not other:
        return f"{missing}: let it print(json.dumps({{{json.dumps(key)}: loss}}))"
    return f"{missing}; its last JSON line has {', '.join(map(str, other))}: set key to the one that is the loss"


def _number(value: object) -> float:
    """A number, or a text of one; NaN for anything else, as for the null that some write in its place."""
    try:
        return math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _single(losses: list[float]) -> np.ndarray[Any, np.dtype[np.float32]]:
    with np.errstate(over="ignore"):
        return np.array(losses, dtype=np.float32)
