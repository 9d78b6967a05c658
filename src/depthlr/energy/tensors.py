"""Arithmetic on gradients and steps, whose tensors may be sparse, complex or of half precision."""

from __future__ import annotations

import torch
from torch import Tensor


def dense(gradient: Tensor) -> Tensor:
    """A gradient that is not sparse."""
    return gradient.to_dense() if gradient.is_sparse else gradient


def add_gradients(one: Tensor, other: Tensor) -> Tensor:
    """Add two gradients. torch adds a dense and a sparse tensor in one order only."""
    return other + one if one.is_sparse else one + other


def mean_product(a: Tensor, b: Tensor) -> Tensor:
    """The mean of a * b over coordinates and examples, in float64."""
    return (_coordinates(a) * _coordinates(b)).mean().double()


def _coordinates(tensor: Tensor) -> Tensor:
    return as_real(widen_half(tensor))


def widen_half(tensor: Tensor) -> Tensor:
    """Half precision as float32, because sums and squares of half precision overflow."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def as_real(tensor: Tensor) -> Tensor:
    """The coordinates of a tensor. Real and imaginary parts of complex values are separate coordinates."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
