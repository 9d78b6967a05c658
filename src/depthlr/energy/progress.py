"""Progress of a measurement: what is being measured, how many of its batches are done, and how many there are.

A function that measures opens a `measuring` block with its number of batches, and reports each with `count_batch`. A
`labelled` block says which part is measured. The display is called after every change. By default it is a line on
stderr, if a terminal or a notebook is attached.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

ShowProgress = Callable[[str, int, int], None]  # what is measured, batches that are done, batches in all

LINE_DELAY = 1.0  # seconds before a line appears: most measurements are over by then
REFRESH = 0.1  # seconds
BAR = 20  # characters


@dataclass
class _Progress:
    tell: ShowProgress
    what: str
    total: int
    done: int = 0

    def report(self) -> None:
        self.tell(self.what or "measuring", self.done, self.total)


_open: ContextVar[_Progress | None] = ContextVar("open measurement", default=None)


@contextmanager
def measuring(total: int) -> Iterator[None]:
    """Show the progress of a measurement. `count_batch` reports each of its batches.

    Inside another `measuring` block it does nothing, because the outer block has counted these batches.

    Args:
        total: The number of batches.
    """
    if _open.get() is not None:
        yield
        return
    with stderr_line() as tell:
        opened = _Progress(tell, "", total)
        token = _open.set(opened)
        try:
            opened.report()
            yield
        finally:
            _open.reset(token)


@contextmanager
def labelled(what: str) -> Iterator[None]:
    """Add a label to the measurement that is open, such as "initialization 2 of 3".

    Args:
        what: The label. Labels of inner blocks follow those of outer blocks, with commas between them.
    """
    progress = _open.get()
    if progress is None:
        yield
        return
    before = progress.what
    progress.what = ", ".join(filter(None, (before, what)))
    progress.report()
    try:
        yield
    finally:
        progress.what = before


def count_batch() -> None:
    """Report that one batch more is done."""
    progress = _open.get()
    if progress is not None:
        progress.done += 1
        progress.report()


@contextmanager
def stderr_line() -> Iterator[ShowProgress]:
    """One line that is written over and over, and erased at the end; nothing where nobody looks."""
    out = sys.stderr
    attached = out is not None and (out.isatty() or "ipykernel" in sys.modules)
    began = time.monotonic()
    shown, length = began + LINE_DELAY - REFRESH, 0

    def tell(what: str, done: int, total: int) -> None:
        nonlocal shown, length
        now = time.monotonic()
        if not attached or not done or now < shown + REFRESH:
            return
        line = progress_line(what, done, total, now - began)
        out.write(f"\r{line:<{length}}")
        out.flush()
        shown, length = now, len(line)

    try:
        yield tell
    finally:
        if length:
            out.write(f"\r{'':<{length}}\r")
            out.flush()


def progress_line(what: str, done: int, total: int, seconds: float) -> str:
    """`size 4, initialization 2 of 3: [#####...............] 34 of 136 batches, 12 s left`."""
    bar = "#" * (BAR * done // total)
    return f"{what}: [{bar:.<{BAR}}] {done} of {total} batches, {seconds / done * (total - done):.0f} s left"
