"""The file that a verb was told to write: whole or not at all, and never the study it was made from."""

from __future__ import annotations

from pathlib import Path

from depthlr.cli.output import print_note
from depthlr.data.files import replace_file
from depthlr.errors import DepthlrError


def check_not_the_study(out: Path, study: str, what: str) -> None:
    """Refuse a file that is the study under this or another name."""
    try:
        same = Path(study).samefile(out)
    except OSError:  # it is not there, or has a name that no file can have, which writing it tells
        same = False
    if same:
        raise DepthlrError(f"{out} is the study itself: choose another name for its {what}.")


def write_file(out: Path, content: bytes) -> None:
    """Put the file in its place, and say so."""
    try:
        with replace_file(out) as file:
            file.write(content)
    except OSError as error:
        raise DepthlrError(f"{out} cannot be written ({error}): name a file in a folder you can write to.") from error
    print_note(f"wrote {out}")
