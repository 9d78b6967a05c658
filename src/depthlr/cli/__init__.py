"""Layer 5: the command line, one small file a verb."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `depthlr`; a bad input is one sentence on stderr and exit code 2."""
    from depthlr.cli.app import app
    from depthlr.errors import DepthlrError

    try:
        app()
    except DepthlrError as error:
        print(f"depthlr: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:  # the reader of a pipe went away: nothing to say to it
        sys.stderr.close()
        raise SystemExit(0) from None
