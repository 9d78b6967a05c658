"""The device that trains: which one, what to do when its memory is full, and how precisely it multiplies."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

from depthlr.errors import DepthlrError


def default_device() -> str:
    """ "cuda" if there is a GPU, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def available_cores() -> int:
    """The number of cores that this process may use, or of all cores if the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def explain_full_memory() -> Iterator[None]:
    """Say what to do about a GPU that runs out of memory inside, where nothing smaller is left to try."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        sentence = "a model of this size does not fit on the GPU with this batch: take a smaller batch or model."
        raise DepthlrError(sentence) from error


@contextlib.contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Set how matrix products and convolutions are computed on a GPU, and put the setting back.

    Args:
        precision: "fp32", "tf32" or "bf16".
    """
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32, torch.backends.cudnn.benchmark = before


def autocast(precision: str, device: torch.device) -> contextlib.AbstractContextManager[object]:
    """bf16 activations with fp32 weights, or nothing. Casts are not cached: a captured graph must make its own.

    Args:
        precision: "bf16" casts.
        device: Where the model runs.
    """
    if precision != "bf16":
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
