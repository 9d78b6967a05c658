"""Seeded batches of the digits."""

from functools import cache

import torch
from torch import Tensor

from depthlr.data.dataset import DataSet
from depthlr.data.digits import digit_set
from depthlr.errors import DepthlrError


@cache
def _digits() -> DataSet:
    return digit_set()


def digits_batch(size: int, seed: int) -> tuple[Tensor, Tensor]:
    """`size` different digits drawn by `seed`, mean 0 and variance 1 over the set (the theory's inputs, Sec. 3.1).

    float32 (size, 1, 8, 8) and int64 (size,).
    """
    data = _digits()
    if not 1 <= size <= len(data):
        raise DepthlrError(f"A batch of {size} digits cannot be drawn: choose a size from 1 to {len(data)}.")
    return data.batch(torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))[:size])
