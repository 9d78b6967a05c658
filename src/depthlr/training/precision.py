"""Precisions: fp32 to the last bit, TF32 products, or bf16 where autocast allows it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Set how matrix products and convolutions are computed on a GPU, and put the setting back."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = before


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[object]:
    """bf16 activations with fp32 weights, or nothing. Casts are not cached: a captured graph must make its own."""
    if precision != "bf16":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
