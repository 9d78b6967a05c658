"""The share of sites at which zero padding cuts a convolution's window."""

import itertools
import math
from collections.abc import Iterable, Sequence

from depthlr import check
from depthlr.errors import DepthlrError

Offset = tuple[int, ...]


def kernel_offsets(kernel: int | Sequence[int]) -> list[Offset]:
    """The offsets a kernel of these sizes reads, one size an axis, placed as PyTorch's padding='same' places it.

    'Same' pads k - 1 in all and (k - 1) // 2 of it on the left, so an even kernel reaches one further to the right.
    """
    sizes = kernel if isinstance(kernel, Sequence) else [kernel]
    spans = [check.count("A kernel size", size, least=1) for size in sizes]
    if not spans:
        raise DepthlrError("A kernel needs at least one size: pass 3 or (3, 3).")
    lefts = [(size - 1) // 2 for size in spans]
    return list(itertools.product(*(range(-left, size - left) for size, left in zip(spans, lefts, strict=True))))


def boundary_fraction(shape: Sequence[int], offsets: Iterable[Sequence[int]]) -> float:
    """bdry(Lambda, K): the share of sites p of a rectangle with some p + offset outside it (0 if padding is circular).

    A rectangle's site is inside for every offset exactly if it is so on each axis for the least and the greatest one.
    """
    sizes = [check.count("A size of the shape", size, least=1) for size in shape]
    windows = [tuple(offset) for offset in offsets]
    if not sizes or not windows:
        raise DepthlrError("The boundary needs a shape and at least one offset: kernel_offsets((3, 3)) makes them.")
    if any(len(window) != len(sizes) for window in windows):
        raise DepthlrError(f"Each offset needs {len(sizes)} entries, one for each size of the shape {tuple(sizes)}.")
    inside = [
        max(0, size - max(0, *steps) - max(0, *(-step for step in steps)))
        for size, steps in zip(sizes, zip(*windows, strict=True), strict=True)
    ]
    sites: int = math.prod(sizes)
    interior: int = math.prod(inside)
    return (sites - interior) / sites  # Sec. (method:cnn): |boundary of Lambda| / |Lambda|
