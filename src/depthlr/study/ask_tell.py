"""Studies whose cells another scheduler trains: `ask` names the cells to train, `tell` takes their losses.

Both may be repeated. `ask` changes nothing, and returns the same cells until it has their losses. `tell` checks all
lines before it writes any. A loss that is given twice is kept once.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.study.description import Search, Study
from depthlr.study.record import Judge, Record, make_record
from depthlr.study.search import search_state
from depthlr.study.store import open_store, read_store
from depthlr.study.tasks import depths_of
from depthlr.training.cell import Cell, Evaluation, Outcome
from depthlr.training.command import KEY, fill_template

LOCK_TIMEOUT = 60.0  # seconds to wait for another writer: jobs that end together tell together
NEAR = 1e-5  # relative difference within which a rate is one of the grid's: printf's %g has six digits


def create_study(study: Study, path: Path | str) -> None:
    """Create a study's file if it does not exist, with the effective depths of its models if they are known.

    Args:
        study: The study.
        path: Its file.
    """
    if not Path(path).exists():
        with open_store(path, study, depths=None if study.model.spec is None else depths_of(study)):
            pass


def ask(path: Path | str, count: int | None = None) -> list[dict[str, Any]]:
    """The cells to train now, as JSON objects. There are none if the search is finished.

    Args:
        path: The study's file.
        count: Return at most this many.
    """
    content = read_store(path)
    cells = search_state(content.study, content.records.values()).missing[:count]
    command = content.study.training.command
    wanted: list[dict[str, Any]] = [asdict(cell) for cell in cells]
    if command is not None:
        for entries, cell in zip(wanted, cells, strict=True):
            entries["command"] = fill_template(command, cell)
    return wanted


def tell(path: Path | str, lines: Iterable[str]) -> int:
    """Keep the losses on these lines of JSON; returns how many cells are new.

    Args:
        path: The study's file.
        lines: An object each: `size`, `seed` and `rate` as `ask` gave them, and the loss (null if it diverged), as
            `loss` or by the study's `training.key`; or `failure` with the reason why there is none. `accuracy` and
            `seconds` may be added.
    """
    study = read_store(path).study
    with open_store(path, study, patience=LOCK_TIMEOUT) as store:
        known = dict(store.content().records)
        new: dict[Cell, Record] = {}
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            told = _read(study, line, number)
            before = known.get(told.cell)
            if before is not None and (before.loss, before.failure) == (told.loss, told.failure):
                continue
            if before is not None and not before.failure:
                wrong = f"tells the loss {told.loss:g} of a cell that has {before.loss:g}"
                raise DepthlrError(f"line {number} {wrong}: nothing was kept; leave that line out.")
            known[told.cell] = new[told.cell] = told
        store.put(*new.values())
    return len(new)


def _read(study: Study, line: str, number: int) -> Record:
    """The record of a line, or a sentence that says what is wrong with it."""
    where, search, key = f"line {number}", study.search, study.training.key or KEY
    entries: Any = None
    with suppress(ValueError, RecursionError):
        entries = json.loads(line)
    if not isinstance(entries, dict):
        raise DepthlrError(f"{where} is {line.strip()[:60]!r}: nothing was kept; write one JSON object on it.")
    for entry, allowed in (("size", study.model.sizes), ("seed", search.seeds)):
        value = entries.get(entry)
        if isinstance(value, bool) or value not in allowed:
            raise DepthlrError(
                f"{where} has the {entry} {value!r}: nothing was kept; the study has {', '.join(map(str, allowed))}."
            )
    cell = Cell(int(entries["size"]), int(entries["seed"]), _rate(search, entries.get("rate"), where))
    if not entries.keys() & {key, KEY, "failure"}:
        raise DepthlrError(f"{where} has neither {key} nor failure: nothing was kept; add one of them.")
    seconds = check.number(f"seconds on {where}", entries.get("seconds", 0.0))
    failure = None if entries.get("failure") is None else check.text(f"failure on {where}", entries["failure"])
    loss, accuracy = _loss(entries.get(key, entries.get(KEY)), where), entries.get("accuracy")
    diverged = failure is not None or not math.isfinite(loss)
    evaluations: list[Evaluation] = []
    if accuracy is not None:
        accuracy = check.number(f"accuracy on {where}", accuracy, below=1 + 1e-9)
        evaluations = [] if diverged else [Evaluation(1, loss, accuracy)]
    outcome = Outcome(np.zeros(0, np.float32), seconds, diverged, tuple(evaluations), failure, loss)
    return make_record(cell, outcome, Judge("budget"))


def _loss(value: object, where: str) -> float:
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DepthlrError(f"{where} has the loss {value!r}: nothing was kept; write a number, or null if it diverged.")
    return float(value)


def _rate(search: Search, value: object, where: str) -> float:
    """The grid's rate that was meant."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf:
        place = bisect_left(search.rates, value)
        near = min(search.rates[max(0, place - 1) : place + 1], key=lambda rate: abs(math.log(rate / value)))
        if abs(math.log(near / value)) <= min(NEAR, search.spacing / 2):
            return near
    raise DepthlrError(f"{where} has the rate {value!r}: nothing was kept; write one that depthlr ask printed.")
