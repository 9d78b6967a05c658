"""Layer 6: the command line, a file for each subject of its verbs, and what verbs share."""

from __future__ import annotations

import io
import os
import sys


def main() -> None:
    """Run `depthlr`; a bad input is one sentence on stderr and exit code 2."""
    _replace_closed_streams()  # first of all: what is imported may open files
    _replace_missing_characters()
    try:
        from depthlr.cli.app import app
        from depthlr.errors import DepthlrError
    except KeyboardInterrupt:  # nothing has begun
        raise SystemExit(130) from None
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here and not at the exit, where a reader that went away would be a traceback
    except BrokenPipeError:  # the reader of a pipe went away: nothing to say to it
        _drop_stdout()
        raise SystemExit(1) from None
    except (DepthlrError, OSError) as error:
        if isinstance(error, OSError) and error.filename is None:  # a write to stdout failed: the disk is full
            _drop_stdout()
        print(f"depthlr: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _drop_stdout() -> None:
    """What is left to be written goes nowhere, so that the exit does not try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _replace_closed_streams() -> None:
    """What is for a stream that was closed by whoever started this goes nowhere."""
    # It takes the closed one's number, too, which would else be that of the next file to be opened.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", errors="replace"))


def _replace_missing_characters() -> None:
    """A ? stands for a character that a stream's encoding lacks, such as ± in ASCII."""
    # Python's own choices: stdout would raise, stderr write six characters for one and push a picture apart.
    for stream, default in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == default:
            stream.reconfigure(errors="replace")
