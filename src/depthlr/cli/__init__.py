"""Layer 6: the command line, one file per verb, and what verbs share."""

from __future__ import annotations

import errno
import io
import os
import sys

# What a file's name can fail with.
UNUSABLE = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)
WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # what a write to stdout can fail with


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
    except (DepthlrError, RuntimeError, OSError) as error:
        sentence = f"{error}" if isinstance(error, DepthlrError) else _sentence_of(error)
        if not sentence:
            raise
        print(f"depthlr: {sentence}", file=sys.stderr)
        raise SystemExit(2) from None


def _sentence_of(error: RuntimeError | OSError) -> str:
    """What to say of an error of the system; empty if it is a defect of ours."""
    if isinstance(error, RuntimeError):
        known = "home directory" in str(error)  # what pathlib says of ~nobody, and of a user who has none
        return "There is no home folder of that name: name the folder without ~." if known else ""
    if error.errno in UNUSABLE and error.filename is not None:
        return f"{error.filename} cannot be used ({error.strerror}): name another file or folder."
    if error.errno in WRITE_ERRORS:
        _drop_stdout()
        return f"The result cannot be written ({error}): free some space, or send it elsewhere."
    return ""


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
