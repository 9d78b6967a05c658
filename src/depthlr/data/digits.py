"""The 1,797 handwritten digits that ship with depthlr: data without a download.

UCI Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, 1998, CC BY 4.0; see DIGITS-ATTRIBUTION.txt.
"""

import hashlib
from functools import cache
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor

from depthlr.data.batches import batch_order
from depthlr.data.sets import DataSet
from depthlr.errors import DepthlrError

# Of the images' bytes, then the labels'.
DIGITS_SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"
DIGITS_ATTRIBUTION = (
    "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998 (doi.org/10.24432/C50P49); "
    "CC BY 4.0"
)


def read_digits() -> tuple[Tensor, Tensor]:
    """Read and verify the images, uint8 (1797, 1, 8, 8) with values 0 to 16, and the labels, int64 (1797,)."""
    path = files("depthlr.data").joinpath("digits.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    if hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest() != DIGITS_SHA256:
        raise DepthlrError(f"The digits in {path} are not the ones depthlr shipped: install depthlr again.")
    return torch.from_numpy(images), torch.from_numpy(labels).to(torch.int64)


def load_digits() -> DataSet:
    """Return the digits as a data set."""
    images, labels = read_digits()
    return DataSet.from_tensors("digits", images, labels, 10, DIGITS_ATTRIBUTION)


@cache
def _digits() -> DataSet:
    return load_digits()


def digits_batch(size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return images, float32 (size, 1, 8, 8), and labels, int64 (size,), of different digits.

    Over the whole set the pixels have mean 0 and variance 1, as the theory assumes (Sec. 3.1).

    Args:
        size: the batch size, at most 1797.
        seed: the seed of the shuffle.
    """
    return digits_batches(size, 1, seed)[0]


def digits_batches(size: int, count: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Return the first batches of a shuffle of the digits. When it is used up, another shuffle begins.

    Args:
        size: the batch size, at most 1797.
        count: the number of batches.
        seed: the seed of the shuffles.
    """
    data = _digits()
    if not 1 <= size <= len(data):
        raise DepthlrError(f"A batch of {size} digits cannot be drawn: choose a size from 1 to {len(data)}.")
    return [data.batch(indices) for indices in batch_order(len(data), size, count, seed)]
