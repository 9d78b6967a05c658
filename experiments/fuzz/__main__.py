"""Fuzz each reader for some time, print the table, and write it to results/fuzz.

python -m experiments.fuzz [READER ...] [--seconds 600] [--write]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
import torch
from hypothesis import HealthCheck, Phase, given, settings

from experiments.fuzz.modules import MODULES
from experiments.fuzz.readers import READERS, Reader
from experiments.pages import markdown_table, put
from experiments.tables import keep_row, read_text

EVERY = {**READERS, "modules": MODULES}
ROUND = 200  # inputs between two looks at the clock
TABLE = Path(__file__).parents[2] / "results" / "fuzz" / "fuzz.json"
PAGE = TABLE.parents[2] / "docs" / "cluster.md"
COLUMNS = ("reader", "engine", "inputs", "seconds", "crashes")


@dataclass
class Fuzzed:
    """How a reader fared."""

    inputs: int = 0
    seconds: float = 0.0
    crashes: dict[str, str] = field(default_factory=dict)  # what happened, by where it happened


def fuzz(reader: Reader, seconds: float, seed: int = 0) -> Fuzzed:
    """Give a reader random inputs for some time. A crash is anything raised but a `DepthlrError`.

    Args:
        reader: The reader.
        seconds: How long; a round of inputs is always finished.
        seed: Of the inputs.
    """
    found = Fuzzed()
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as name:
        folder = Path(name)

        @settings(
            max_examples=ROUND,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(reader.inputs())
        def attempt(content: object) -> None:
            found.inputs += 1
            try:
                reader.check(content, folder)
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}"
                found.crashes.setdefault(place, f"{error} of {content!r}"[:2000])

        while not found.inputs or time.monotonic() - start < seconds:
            hypothesis.seed(seed)(attempt)()
            seed += 1
    found.seconds = time.monotonic() - start
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER", help=", ".join(EVERY))
    parser.add_argument("--seconds", type=float, default=600, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="keep the rows in results/fuzz")
    options = parser.parse_args()
    if unknown := set(options.readers) - set(EVERY):
        parser.error(f"there is no reader {unknown.pop()!r}: choose from {', '.join(EVERY)}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(markdown_table(COLUMNS, []))
    failed = False
    for name in options.readers or EVERY:
        reader = EVERY[name]
        found = fuzz(reader, options.seconds, options.seed)
        row = (reader.what, "hypothesis", found.inputs, round(found.seconds), len(found.crashes))
        print(f"| {' | '.join(map(str, row))} |", flush=True)
        for place, what in found.crashes.items():
            print(f"CRASH {place}: {what}", file=sys.stderr, flush=True)
        if options.write:
            keep_row(TABLE, dict(zip(COLUMNS, row, strict=True)), "reader", "engine")
        failed |= bool(found.crashes)
    if options.write:
        put(PAGE, "fuzz", page_table())
    raise SystemExit(failed)


def page_table() -> str:
    """The table of the page, from the rows that were kept."""
    rows = json.loads(read_text(TABLE))
    return markdown_table(COLUMNS, ([str(row[column]) for column in COLUMNS] for row in rows))


if __name__ == "__main__":
    main()
