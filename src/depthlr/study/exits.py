"""A model, a loss or data of the user's own that calls sys.exit: told, where it would end all without a word."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from depthlr.errors import DepthlrError


@contextmanager
def exits_told() -> Iterator[None]:
    try:
        yield
    except SystemExit as error:
        raise DepthlrError(
            f"the model, its loss or its data called sys.exit({'' if error.code is None else repr(error.code)}): raise "
            "an error there instead; what a sweep had finished is kept."
        ) from error
