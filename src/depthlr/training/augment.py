"""Augmentation of image batches on the device: flip, crop with padding, mixup, cutmix.

All random numbers are drawn from the seed before the run, one row per example. A captured step therefore draws nothing
and can be replayed, several cells can train at the same time, and every device sees the same batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.python_name import is_python_name, python_callable

KINDS = ("flip", "crop", "mixup", "cutmix")
CHANCE_COLUMNS = 4  # flip, shift down, shift right, share of the image itself
MOST_PADDING = 64

LossOf = Callable[[Any, Tensor], Tensor]


def parse_augment(value: object) -> tuple[str, ...] | str:
    """Return the entry training.augment in its canonical form: `("flip", "crop=4")`, or a function's name.

    Args:
        value: What the user wrote.
    """
    if isinstance(value, str) and is_python_name(value):
        return value
    if not isinstance(value, tuple | list) or not value:
        raise DepthlrError(
            f'training.augment is {value!r}: write a list such as ["flip", "crop=4"], or package.module:function.'
        )
    found: dict[str, str] = {}
    for item in value:
        kind, _, number = check.text("an entry of training.augment", item).partition("=")
        check.one_of("an entry of training.augment", kind, KINDS)
        if kind in found:
            raise DepthlrError(f"training.augment has {kind} twice: keep one.")
        found[kind] = _parameter(kind, number)
    if "mixup" in found and "cutmix" in found:
        raise DepthlrError("training.augment has mixup and cutmix: choose one of them.")
    return tuple(f"{kind}={number}".rstrip("=") for kind, number in found.items())


def _parameter(kind: str, text: str) -> str:
    """What stands behind the equals sign: nothing for flip, pixels for crop, the Beta distribution's parameter else."""
    wrong = DepthlrError(f"an entry of training.augment is {kind}={text}: write flip, crop=4, mixup=0.2 or cutmix=1.")
    if kind == "flip":
        if text:
            raise wrong
        return ""
    try:
        number = int(text or 4) if kind == "crop" else float(text or 1.0)
    except ValueError:
        raise wrong from None
    name = f"{kind} in training.augment"
    return str(check.count(name, number, most=MOST_PADDING)) if kind == "crop" else f"{check.rate(name, number):g}"


def _options(augment: tuple[str, ...]) -> dict[str, str]:
    """What stands behind the equals sign, by kind."""
    return dict(item.partition("=")[::2] for item in augment)


def draw_chances(augment: tuple[str, ...] | str | None, steps: int, batch: int, seed: int) -> Tensor:
    """The numbers that decide each example's augmentation, float32 (steps, batch, CHANCE_COLUMNS), in [0, 1].

    Args:
        augment: The entry training.augment in its canonical form.
        steps: How many steps a run takes.
        batch: The number of examples in a batch.
        seed: The seed of the run.
    """
    if augment is None or isinstance(augment, str):
        return torch.zeros(steps, batch, 0)
    options = _options(augment)
    generator = np.random.default_rng([seed, 1])  # the order of examples is drawn from the seed alone
    drawn = generator.random((steps, batch, CHANCE_COLUMNS), dtype=np.float32)
    mixing = options.get("mixup") or options.get("cutmix")
    if mixing is not None:
        drawn[:, :, 3] = generator.beta(float(mixing), float(mixing), (steps, 1))
    return torch.from_numpy(drawn)


def augment_batch(
    augment: tuple[str, ...] | str | None, inputs: Tensor, target: Tensor, chance: Tensor, loss_fn: LossOf
) -> tuple[Tensor, Tensor, LossOf]:
    """A batch as the model sees it, its targets, and the loss to take of output and targets.

    Args:
        augment: The entry training.augment in its canonical form.
        inputs: The batch, (B, C, H, W) where images are moved or mixed.
        target: Its targets.
        chance: Rows of `draw_chances` for this batch, (B, CHANCE_COLUMNS).
        loss_fn: The loss of an output and targets; mixed images take its mean over both images' targets.
    """
    if augment is None:
        return inputs, target, loss_fn
    if isinstance(augment, str):
        inputs, target = python_callable(augment)(inputs, target)
        return inputs, target, loss_fn
    if inputs.dim() != 4:
        raise DepthlrError(f"training.augment moves images, and inputs have shape {tuple(inputs.shape)}: leave it out.")
    options = _options(augment)
    if "flip" in options or "crop" in options:
        inputs = shift_images(inputs, chance, int(options.get("crop", 0)), flip="flip" in options)
    if "mixup" in options:
        share = chance[0, 3]
        mixed = share * inputs + (1 - share) * inputs.flip(0)
    elif "cutmix" in options:
        inside = _box(inputs, chance)
        share = 1 - inside.float().mean()
        mixed = torch.where(inside, inputs.flip(0), inputs)
    else:
        return inputs, target, loss_fn

    def mixed_loss(output: Any, target: Tensor) -> Tensor:
        return share * loss_fn(output, target) + (1 - share) * loss_fn(output, target.flip(0))

    return mixed, target, mixed_loss


def shift_images(images: Tensor, chance: Tensor, padding: int, *, flip: bool) -> Tensor:
    """Images flipped left to right and shifted. What is uncovered becomes 0.

    Args:
        images: The images, (B, C, H, W).
        chance: Rows of `draw_chances` for this batch.
        padding: How many pixels they are shifted at most, each way.
        flip: Flip half of them.
    """
    batch, channels, height, width = images.shape
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    rows = torch.arange(height, device=images.device).expand(batch, -1)
    columns = torch.arange(width, device=images.device).expand(batch, -1)
    if flip:
        columns = torch.where(chance[:, :1] < 0.5, width - 1 - columns, columns)
    # A chance of [0, 1) picks one of 2 padding + 1 shifts.
    shift = (chance[:, 1:3] * (2 * padding + 1)).long().clamp(max=2 * padding)
    rows, columns = rows + shift[:, :1], columns + shift[:, 1:]
    image = torch.arange(batch, device=images.device)[:, None, None, None]
    channel = torch.arange(channels, device=images.device)[None, :, None, None]
    return padded[image, channel, rows[:, None, :, None], columns[:, None, None, :]]


def _box(images: Tensor, chance: Tensor) -> Tensor:
    """Where cutmix puts the partner, bool (1, 1, H, W): a box of 1 - share of the area around a random centre."""
    height, width = images.shape[-2:]
    side = (1 - chance[0, 3]).sqrt()
    inside = []
    for size, centre in ((height, chance[0, 1]), (width, chance[0, 2])):
        place = torch.arange(size, device=images.device)
        inside.append((place - centre * size).abs() < side * size / 2)
    return (inside[0][:, None] & inside[1][None, :])[None, None]
