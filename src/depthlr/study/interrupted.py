"""Ctrl-C during a sweep: nothing finished is lost, and the exception says how to go on."""

import shlex
from pathlib import Path


class SweepInterrupted(KeyboardInterrupt):
    """Raised in place of KeyboardInterrupt; `command` resumes the sweep where it stopped."""

    def __init__(self, path: Path, cells: int) -> None:
        self.path = path
        self.cells = cells
        self.command = f"depthlr sweep {shlex.quote(str(path))}"
        super().__init__(f"stopped with {cells} cells kept in {path}; go on with: {self.command}")
