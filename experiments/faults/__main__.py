"""Go through every scenario, print what became of it, and write the table to results/faults.

python -m experiments.faults [SCENARIO ...] [--times N] [--write]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from experiments.faults.bitflips import bit_flips
from experiments.faults.cells import diverging, failing, ray_node_killed, worker_killed
from experiments.faults.kill import full_at_writes, kill_at_writes, random_kills
from experiments.faults.places import (
    broken_downloads,
    clock_jumps,
    file_size_limits,
    old_schemas,
    read_only_folder,
    two_writers,
)
from experiments.faults.scenario import Scenario, Verdict
from experiments.one_machine import Unavailable
from experiments.pages import markdown_table, put
from experiments.tables import keep_row, read_text

SCENARIOS = {
    "writes": Scenario("driver killed (SIGKILL) at every write of its file", kill_at_writes, 10_000, 30),
    "kill": Scenario("driver killed (SIGKILL) at a random moment", random_kills, 50, 0),
    "worker": Scenario("worker killed (SIGKILL) in mid-cell", worker_killed, 5, 1),
    "ray-node": Scenario("Ray node killed in mid-cell", ray_node_killed, 2, 0),
    "full": Scenario("disk full at every write of its file", full_at_writes, 10_000, 10),
    "limit": Scenario("files may not grow (RLIMIT_FSIZE)", file_size_limits, 40, 4),
    "read-only": Scenario("read-only folder and file", read_only_folder, 10, 2),
    "writers": Scenario("two writers of one file", two_writers, 20, 1),
    "clock": Scenario("clock jumps by decades", clock_jumps, 20, 1),
    "bitflips": Scenario("one bit of the file flipped", bit_flips, 3000, 0),
    "schemas": Scenario("file of every schema so far", old_schemas, 1, 1),
    "download": Scenario("download breaks off", broken_downloads, 50, 5),
    "memory": Scenario("out of memory at one depth (MemoryError)", failing("memory", (0, 1)), 1, 0),
    "gpu-memory": Scenario("out of memory at one depth (torch.OutOfMemoryError)", failing("GPU memory", (0, 1)), 1, 0),
    "too-large": Scenario("allocation of a petabyte at one depth", failing("too large", (0, 1)), 1, 0),
    "nan": Scenario("loss is NaN", diverging, 1, 0),
    "raises": Scenario("model raises an error", failing("raises"), 1, 1),
    "exits": Scenario("model calls sys.exit", failing("exits"), 1, 0),
    "hangs": Scenario("cell hangs, with a time limit", failing("hangs"), 1, 0),
    "crashes": Scenario("segmentation fault in a cell", failing("segmentation fault"), 1, 0),
    "killed": Scenario("worker killed in every try of a cell", failing("killed"), 1, 0),
}
TABLE = Path(__file__).parents[2] / "results" / "faults" / "faults.json"
PAGE = TABLE.parents[2] / "docs" / "cluster.md"
HEAD = ("scenario", "tried", "cells lost", "trained twice", "other tables", "what the user sees")
COLUMNS = ("scenario", "tried", "lost", "twice", "other_tables", "says")


def verdicts(names: Sequence[str], times: int | None) -> Iterator[tuple[str, Verdict | str]]:
    """The verdict of each scenario, or why it cannot be had here.

    Args:
        names: The scenarios.
        times: How often to try each; None takes as often as each is worth.
    """
    for name in names:
        scenario = SCENARIOS[name]
        with tempfile.TemporaryDirectory() as folder:
            try:
                yield name, scenario.run(times or scenario.times, Path(folder))
            except Unavailable as error:
                yield name, str(error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--times", type=int, help="how often to try each")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.relative_to(TABLE.parents[2])}")
    options = parser.parse_args()
    if unknown := set(options.scenarios) - set(SCENARIOS):
        parser.error(f"there is no scenario {unknown.pop()!r}: choose from {', '.join(SCENARIOS)}")
    print(markdown_table(HEAD, []))
    failed = False
    for name, found in verdicts(options.scenarios or list(SCENARIOS), options.times):
        what = SCENARIOS[name].what
        if isinstance(found, str):
            print(f"| {what} | not tried: {found} | | | | |", flush=True)
            continue
        row = (what, found.times, found.lost, found.twice, len(found.wrong), found.says)
        print(f"| {' | '.join(map(str, row))} |", flush=True)
        for line in found.wrong:
            print(f"WRONG: {line}", file=sys.stderr)
        if options.write:
            keep_row(TABLE, dict(zip(COLUMNS, row, strict=True)), "scenario")
        failed |= not found.passed
    if options.write:
        put(PAGE, "faults", page_table())
    raise SystemExit(failed)


def page_table() -> str:
    """The table of the page, from the rows that were kept."""
    rows = json.loads(read_text(TABLE))
    return markdown_table(HEAD, ([str(row[column]) for column in COLUMNS] for row in rows))


if __name__ == "__main__":
    main()
