"""Print how one study ends in every way of training it, and what two nodes are worth.

python -m experiments.cluster [same] [efficiency]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
from pathlib import Path

from experiments.cluster.same import WAYS, given, ray_seconds, worker_seconds
from experiments.one_machine import Unavailable

CELLS = 24  # that efficiency is measured on


def same() -> bool:
    print("| way | cells | sha256 of the table | same bytes |\n|---|---|---|---|")
    expected, every = None, True
    for way, run in WAYS.items():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            try:
                table = run(given(Path(folder)))
            except Unavailable as error:
                print(f"| {way} | - | - | not tried: {error} |", flush=True)
                continue
        expected = expected or table
        every &= table == expected
        digest = hashlib.sha256(table.encode()).hexdigest()[:16]
        print(f"| {way} | {table.count(chr(10)) - 1} | {digest} | {'yes' if table == expected else 'NO'} |", flush=True)
    return every


def efficiency() -> bool:
    load = os.getloadavg()[0]
    print(f"{CELLS} cells that sleep for 1 s each, after every worker has started; load average {load:.1f}")
    print("| executor | one, s | two, s | parallel efficiency |\n|---|---|---|---|")
    good = True
    for name, seconds in (("worker processes", worker_seconds), ("Ray nodes of one CPU", ray_seconds)):
        one, two = seconds(1, CELLS), seconds(2, CELLS)
        good &= one / two / 2 >= 0.9
        print(f"| {name} | {one:.2f} | {two:.2f} | {one / two / 2:.1%} |", flush=True)
    return good


PARTS = {"same": same, "efficiency": efficiency}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {unknown.pop()!r}: choose from {', '.join(PARTS)}")
    # List them all, so that one part that fails does not hide the others.
    passed = [PARTS[name]() for name in options.parts or PARTS]
    raise SystemExit(not all(passed))


if __name__ == "__main__":
    main()
