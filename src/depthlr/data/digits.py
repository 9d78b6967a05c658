"""The 1,797 handwritten digits that ship with depthlr, so that it can show itself without a download.

UCI Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, 1998, CC BY 4.0; see DIGITS-ATTRIBUTION.txt.
"""

import hashlib
from importlib.resources import files

import numpy as np
import torch
from torch import Tensor

from depthlr.data.dataset import DataSet
from depthlr.errors import DepthlrError

SHA256 = "87ff0c9e40dc7e2c0e34e7257799c2e3f3aec1a016363bb11cad869ec428a826"  # of the images' bytes, then the labels'
ATTRIBUTION = (
    "E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998 (doi.org/10.24432/C50P49); "
    "CC BY 4.0"
)


def digits() -> tuple[Tensor, Tensor]:
    """Images, uint8 (1797, 1, 8, 8) with values 0..16, and labels, int64 (1797,); verified as they are read."""
    path = files("depthlr.data").joinpath("digits.npz")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    if hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest() != SHA256:
        raise DepthlrError(f"The digits in {path} are not the ones depthlr shipped: install depthlr again.")
    return torch.from_numpy(images), torch.from_numpy(labels).to(torch.int64)


def digit_set() -> DataSet:
    """The digits as a data set."""
    images, labels = digits()
    return DataSet.of("digits", images, labels, 10, ATTRIBUTION)
