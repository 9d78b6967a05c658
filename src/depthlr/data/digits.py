"""The 1,797 handwritten digits that ship with depthlr: data without a download.

UCI Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, 1998, CC BY 4.0; see DIGITS-ATTRIBUTION.txt.
"""

import hashlib
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


def load_digits() -> DataSet:
    """Read and verify the digits: images, uint8 (1797, 1, 8, 8) with values 0 to 16, and labels, int64 (1797,)."""
    path = files("depthlr.data").joinpath("digits.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    if hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest() != DIGITS_SHA256:
        raise DepthlrError(f"The digits in {path} are not the ones depthlr shipped: install depthlr again.")
    targets = torch.from_numpy(labels).to(torch.int64)
    return DataSet.from_tensors("digits", torch.from_numpy(images), targets, 10, DIGITS_ATTRIBUTION)


def digits_batch(size: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return images, float32 (size, 1, 8, 8), and labels, int64 (size,), of different digits.

    Over the whole set the pixels have mean 0 and variance 1, as the theory assumes (Sec. 3.1).

    Args:
        size: the batch size, at most 1797.
        seed: the seed of the shuffle.
    """
    data = load_digits()
    return data.batch(batch_order(len(data), size, 1, seed)[0])
