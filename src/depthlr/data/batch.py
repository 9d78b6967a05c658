"""Seeded batches of the digits."""

from functools import cache

from torch import Tensor

from depthlr.data.dataset import DataSet
from depthlr.data.digits import digit_set
from depthlr.data.order import batch_order
from depthlr.errors import DepthlrError


@cache
def _digits() -> DataSet:
    return digit_set()


def digits_batch(size: int, seed: int) -> tuple[Tensor, Tensor]:
    """`size` different digits drawn by `seed`, mean 0 and variance 1 over the set (the theory's inputs, Sec. 3.1).

    float32 (size, 1, 8, 8) and int64 (size,).
    """
    return digits_batches(size, 1, seed)[0]


def digits_batches(size: int, count: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """The first batches of a shuffle; once through, another begins."""
    data = _digits()
    if not 1 <= size <= len(data):
        raise DepthlrError(f"A batch of {size} digits cannot be drawn: choose a size from 1 to {len(data)}.")
    return [data.batch(indices) for indices in batch_order(len(data), size, count, seed)]
