"""Which examples each step sees: a function of the seed, so that every rate of a seed sees the same ones."""

import torch
from torch import Tensor

from depthlr.errors import DepthlrError


def steps_per_epoch(examples: int, batch: int) -> int:
    """Whole batches in one pass; what is left over waits for the next shuffle."""
    if not 1 <= batch <= examples:
        raise DepthlrError(f"A batch of {batch} cannot be drawn from {examples} examples: choose from 1 to {examples}.")
    return examples // batch


def batch_order(examples: int, batch: int, steps: int, seed: int) -> Tensor:
    """Indices int64 (steps, batch), on the CPU: every epoch is a fresh shuffle without its incomplete last batch.

    A longer order begins with the shorter one of the same seed.
    """
    if steps < 0:
        raise DepthlrError(f"An order of {steps} steps cannot be made: choose 0 or more.")
    per_epoch = steps_per_epoch(examples, batch)
    generator = torch.Generator().manual_seed(seed)
    order = torch.empty(steps, batch, dtype=torch.int64)
    for start in range(0, steps, per_epoch):
        shuffled = torch.randperm(examples, generator=generator)
        here = order[start : start + per_epoch]
        here.copy_(shuffled[: here.numel()].view_as(here))
    return order
