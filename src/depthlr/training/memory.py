"""A GPU's want of memory as one sentence, where nothing smaller is left to try."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from depthlr.errors import DepthlrError


@contextmanager
def memory_told() -> Iterator[None]:
    """Say what to do about a GPU that runs out of memory inside."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise DepthlrError(
            "a model of this size does not fit on the GPU with this batch: take a smaller batch or model."
        ) from error
