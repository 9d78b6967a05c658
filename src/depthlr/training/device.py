"""What this process trains on: a GPU where there is one, else the cores it may use."""

from __future__ import annotations

import os

import torch


def chosen_device() -> str:
    """The GPU, where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def cores() -> int:
    """Those this process may use, where the system says so: a Mac counts its cores only."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
