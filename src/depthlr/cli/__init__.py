"""Layer 5: the command line, one file per verb."""

from __future__ import annotations

import errno
import io
import os
import sys

UNUSABLE = (
    errno.ENAMETOOLONG,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ELOOP,
    errno.ENOTDIR,
    errno.EISDIR,
)  # what a file's name can fail with
WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what a write to stdout can fail with


def main() -> None:
    """Run `depthlr`; a bad input is one sentence on stderr and exit code 2."""
    _lack_no_stream()  # first of all: what is imported may open files
    _lack_no_character()
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
    except DepthlrError as error:
        print(f"depthlr: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:  # the reader of a pipe went away: nothing to say to it
        _drop_stdout()
        raise SystemExit(1) from None
    except RuntimeError as error:
        if "home directory" not in str(error):  # what pathlib says of ~nobody, and of a user who has none
            raise
        print("depthlr: There is no home folder of that name: name the folder without ~.", file=sys.stderr)
        raise SystemExit(2) from None
    except OSError as error:
        if error.errno in UNUSABLE and error.filename is not None:
            print(
                f"depthlr: {error.filename} cannot be used ({error.strerror}): name another file or folder.",
                file=sys.stderr,
            )
            raise SystemExit(2) from None
        if error.errno not in WRITE_ERRORS:
            raise
        _drop_stdout()
        print(
            f"depthlr: The result cannot be written ({error}): free some space, or send it elsewhere.", file=sys.stderr
        )
        raise SystemExit(2) from None


def _drop_stdout() -> None:
    """What is left to be written goes nowhere, so that the exit does not try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _lack_no_stream() -> None:
    """What is for a stream that was closed by whoever started this goes nowhere."""
    # It takes the closed one's number, too, which would else be that of the next file to be opened.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", errors="replace"))


def _lack_no_character() -> None:
    """A ? stands for a character that a stream's encoding lacks, such as ± in ASCII."""
    # Python's own choices: stdout would raise, stderr write six characters for one and push a picture apart.
    for stream, default in ((sys.stdout, "strict"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == default:
            stream.reconfigure(errors="replace")
