"""Layer 6: the command line, one small file a verb."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run `depthlr`; a bad input is one sentence on stderr and exit code 2."""
    from depthlr.cli.app import app
    from depthlr.errors import DepthlrError

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
