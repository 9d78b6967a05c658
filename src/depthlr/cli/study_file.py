"""Is a file that was named a study on disk? Told by its first bytes, for a study may be called anything."""

from __future__ import annotations

import os

BEGINS = b"SQLite format 3\0"


def is_study_file(name: str) -> bool:
    """Does it hold a study, or is it at least named as one?"""
    if name.endswith(".sqlite"):
        return True  # one that is not there, or is damaged, is to be missed as a study
    if not os.path.isfile(name):
        return False  # a pipe could not be read a second time
    try:
        with open(name, "rb") as file:
            return file.read(len(BEGINS)) == BEGINS
    except OSError:
        return False  # whoever reads it next says why it cannot
