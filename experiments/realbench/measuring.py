"""Tables of measurements: one row for each key, computed in turn, and written at once so that a cut loses one row."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from depthlr.errors import DepthlrError
from depthlr.study.record import current_environment
from experiments.realbench.kept import read_facts

Key = tuple[Any, ...]
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Measurements:
    """A table of measurements.

    Args:
        keys: the names of the columns that tell rows apart.
        values: the names of the others, but for the seconds that a row took.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]

    def read(self, path: Path) -> dict[tuple[str, ...], dict[str, str]]:
        """The rows by their keys, as text; none if there is no table."""
        if not path.is_file():
            return {}
        with open(path, newline="") as file:
            return {tuple(row[name] for name in self.keys): row for row in csv.DictReader(file)}

    def fill(
        self,
        path: Path,
        study: str,
        wanted: Iterable[Key],
        measure: Callable[..., Values],
        *,
        seconds: float | None = None,
    ) -> bool:
        """Measure what is missing; True if nothing is missing any more.

        Args:
            path: the table's file.
            study: the digest of the recipe's study, kept beside the table.
            wanted: keys, in the order in which they are measured.
            measure: called with a key's parts; returns its values.
            seconds: begin no row after so long.

        Raises:
            DepthlrError: the table belongs to another study.
        """
        start = time.monotonic()
        found = self.read(path)
        if found and read_facts(path).get("study") != study:
            raise DepthlrError(f"{path} holds measurements of another study: move it away, or choose another folder.")
        path.parent.mkdir(parents=True, exist_ok=True)
        missing = [key for key in wanted if tuple(map(str, key)) not in found]
        for place, key in enumerate(missing):
            if seconds is not None and time.monotonic() - start > seconds:
                self._write(path, study, found, complete=False)
                return False
            before = time.perf_counter()
            values = dict(measure(*key))
            row = dict(zip(self.keys, map(str, key), strict=True)) | {name: _text(values[name]) for name in self.values}
            found[tuple(map(str, key))] = row | {"seconds": f"{time.perf_counter() - before:.2f}"}
            self._write(path, study, found, complete=place + 1 == len(missing))
            print(f"{path.stem}: {', '.join(map(str, key))}", flush=True)
        if not missing:
            self._write(path, study, found, complete=True)
        return True

    def _write(self, path: Path, study: str, rows: Mapping[Key, Mapping[str, str]], *, complete: bool) -> None:
        environments = read_facts(path)["environments"]
        here = vars(current_environment())
        part = path.with_suffix(".part")
        with open(part, "w", newline="") as file:
            writer = csv.DictWriter(file, (*self.keys, *self.values, "seconds"), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows.values())
        part.replace(path)
        facts = {
            "study": study,
            "complete": complete,
            "runs": len(rows),
            "gpu_seconds": round(sum(float(row["seconds"]) for row in rows.values()), 1),
            "environments": environments if here in environments else [*environments, here],
        }
        part.write_text(json.dumps(facts, indent=1) + "\n")
        part.replace(path.with_suffix(".json"))


def _text(value: Any) -> str:
    """Six digits of a number; nothing for an unknown one."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def numbers(rows: Iterable[Mapping[str, str]], column: str) -> Sequence[float]:
    """A column's known values."""
    return [float(row[column]) for row in rows if row[column]]
