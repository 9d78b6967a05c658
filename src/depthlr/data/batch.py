"""Seeded batches of the digits."""

from functools import cache

import torch
from torch import Tensor

from depthlr.data.digits import digits
from depthlr.errors import DepthlrError


@cache
def _normalised() -> tuple[Tensor, Tensor]:
    """All digits with mean 0 and variance 1 over the set: the theory takes inputs of order one (Sec. 3.1)."""
    images, labels = digits()
    x = images.double()
    return ((x - x.mean()) / x.std(correction=0)).float(), labels


def digits_batch(size: int, seed: int) -> tuple[Tensor, Tensor]:
    """`size` different digits drawn by `seed`: float32 (size, 1, 8, 8) and int64 (size,)."""
    images, labels = _normalised()
    if not 1 <= size <= len(images):
        raise DepthlrError(f"A batch of {size} digits cannot be drawn: choose a size from 1 to {len(images)}.")
    chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(seed))[:size]
    return images[chosen], labels[chosen]
