"""Fan-in of a weighted operation: how many inputs contribute to one of its outputs."""

from __future__ import annotations

from math import prod
from typing import Any

from torch import Tensor

from depthlr.trace import operations as ops


def fan_in(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], operands: list[Tensor]) -> int:
    """Inputs to one feature where a call multiplies the signal by a parameter; 0 where it does not.

    `operands` are those of its arguments that come from parameters.
    """
    if name in ops.RECURRENT_CELLS or name in ops.RECURRENT:
        return int(operands[0].shape[-1])
    if name in ops.MATRIX_WITH_BIAS:
        operands = [t for t in operands if t.dim() > 1]  # a bias is added, not multiplied
    elif name not in ops.MATRIX_PRODUCTS:
        return 0
    if not operands:
        return 0
    weight = operands[0]
    if name in ops.CONVOLUTIONS:
        return _convolution(name, args, kwargs, weight)
    if name in ops.OUTPUT_FIRST:
        return weight.numel() // weight.shape[0]
    if name == "einsum":
        return _einsum(args, weight)
    if name == "tensordot":
        return _tensordot(args, kwargs, weight)
    if name in ops.LAST_CONTRACTED:
        return int(weight.shape[kwargs.get("dim", -1)])
    chain = args[0] if args and isinstance(args[0], list | tuple) else args
    factors = [t for t in chain if isinstance(t, Tensor)]
    right = len(factors) < 2 or factors[-1] is weight
    return int(weight.shape[-2] if right and weight.dim() > 1 else weight.shape[-1])


def _convolution(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], weight: Tensor) -> int:
    """Channels times kernel places; of a transposed one, times those of its places that fall on one output."""

    def option(name: str, place: int, otherwise: Any) -> Any:
        return kwargs.get(name, args[place] if len(args) > place else otherwise)

    any_kind = name == "convolution"
    transposed = option("transposed", 6, False) if any_kind else name in ops.TRANSPOSED_CONVOLUTIONS
    if not transposed:
        return weight.numel() // weight.shape[0]
    stride, groups = option("stride", 3, 1), option("groups", 8 if any_kind else 6, 1)
    strides = [stride] if isinstance(stride, int) else list(stride)
    places = prod(strides if len(strides) > 1 else strides * (weight.dim() - 2))
    # Weights of shape (in, out / groups, ...). A kernel smaller than its stride leaves outputs that see nothing at all.
    return max(1, weight.numel() // weight.shape[1] // (int(groups) * places))


def _einsum(args: tuple[Any, ...], weight: Tensor) -> int:
    """The sizes of the weight's indices that the result no longer has."""
    equation = args[0]
    if not isinstance(equation, str):
        return int(weight.shape[-1])
    sources, arrow, result = equation.replace(" ", "").partition("->")
    tensors = args[1] if isinstance(args[1], list | tuple) else args[1:]
    for letters, tensor in zip(sources.split(","), tensors, strict=False):
        if tensor is weight:
            if not arrow:  # implicit: letters that occur once stay
                result = "".join(c for c in letters if sources.count(c) == 1)
            letters = letters.replace("...", "")
            return prod(size for c, size in zip(letters, weight.shape[-len(letters) :], strict=True) if c not in result)
    return int(weight.shape[-1])


def _tensordot(args: tuple[Any, ...], kwargs: dict[str, Any], weight: Tensor) -> int:
    dims = kwargs.get("dims", args[2] if len(args) > 2 else 2)
    left = len(args) > 0 and args[0] is weight
    if isinstance(dims, int):
        return prod(weight.shape[-dims:] if left else weight.shape[:dims])
    return prod(weight.shape[d] for d in (dims[0] if left else dims[1]))
