"""Layer 6: the command line, one small file a verb."""

from __future__ import annotations

import io
import os
import sys


def main() -> None:
    """Run `depthlr`; a bad input is one sentence on stderr and exit code 2."""
    from depthlr.cli.app import app
    from depthlr.errors import DepthlrError

    _lack_no_character()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here and not at the exit, where a reader that went away would be a traceback
    except DepthlrError as error:
        print(f"depthlr: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:  # the reader of a pipe went away: nothing to say to it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


def _lack_no_character() -> None:
    """A ? stands for a character that a stream's encoding lacks, such as ± in ASCII."""
    # Python's own choices: stdout would raise, stderr write six characters for one and push a picture apart.
    for stream, default in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == default:
            stream.reconfigure(errors="replace")
