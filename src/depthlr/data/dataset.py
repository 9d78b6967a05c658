"""A labelled data set that lies wholly in memory as bytes, and becomes numbers of order one as it is batched."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from depthlr.errors import DepthlrError


@dataclass(frozen=True, eq=False)
class DataSet:
    """Images or spectrograms, and their labels. `mean` and `std`, one a channel, are in units of the stored bytes."""

    name: str
    inputs: Tensor = field(repr=False)  # uint8 (N, C, H, W)
    targets: Tensor = field(repr=False)  # int64 (N,)
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    digest: str
    attribution: str
    # (2, C, 1, 1) on the device of the inputs: a tensor made of Python numbers inside `batch` would be a copy from the
    # host, which a CUDA graph cannot capture.
    _moments: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.inputs.dtype != torch.uint8 or self.inputs.dim() != 4:
            raise DepthlrError(
                f"{self.name}: inputs are {self.inputs.dtype} {tuple(self.inputs.shape)}; give uint8 (N, C, H, W)."
            )
        if len(self.targets) != len(self.inputs) or self.targets.dtype != torch.int64 or self.targets.dim() != 1:
            raise DepthlrError(f"{self.name}: give one int64 target for each of the {len(self.inputs)} inputs.")
        if not len(self.mean) == len(self.std) == self.inputs.shape[1]:
            raise DepthlrError(f"{self.name}: give one mean and one std for each of {self.inputs.shape[1]} channels.")
        moments = torch.tensor([self.mean, self.std], dtype=torch.float32, device=self.inputs.device)
        object.__setattr__(self, "_moments", moments[..., None, None])

    @classmethod
    def of(cls, name: str, inputs: Tensor, targets: Tensor, classes: int, attribution: str) -> Self:
        """A data set normalised by its own mean and std, with its own digest."""
        if not len(inputs):
            raise DepthlrError(f"{name} holds no examples: name a folder that holds some.")
        if not 0 <= int(targets.min()) <= int(targets.max()) < classes:
            raise DepthlrError(
                f"{name} has labels from {int(targets.min())} to {int(targets.max())}, but {classes} classes number "
                f"0 to {classes - 1}: the files are damaged or of another data set; fetch them again."
            )
        mean, std = moments(inputs)
        return cls(name, inputs, targets, classes, mean, std, examples_digest(inputs, targets), attribution)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.inputs.shape[1:])

    @property
    def input(self) -> str:
        return "x".join(map(str, self.input_shape))

    def to(self, device: torch.device | str) -> Self:
        return replace(self, inputs=self.inputs.to(device), targets=self.targets.to(device))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:  # int64 (B,) -> float32 (B, C, H, W), int64 (B,)
        mean, std = self._moments
        inputs = self.inputs.index_select(0, indices).to(torch.float32).sub_(mean).div_(std)
        return inputs, self.targets.index_select(0, indices)


def moments(inputs: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and std of each channel of uint8 (N, C, H, W), exact: both follow from how often each byte occurs."""
    means, stds = [], []
    values = torch.arange(256, dtype=torch.float64)
    for channel in inputs.unbind(1):
        share = torch.bincount(channel.reshape(-1), minlength=256).double() / channel.numel()
        mean = (share * values).sum()
        means.append(float(mean))
        stds.append(float((share * (values - mean) ** 2).sum().sqrt()) or 1.0)  # a constant channel becomes 0, not nan
    return tuple(means), tuple(stds)


def examples_digest(inputs: Tensor, targets: Tensor) -> str:
    """sha256 of shape, inputs and targets, whatever file or archive held them."""
    digest = hashlib.sha256(repr((str(inputs.dtype), *inputs.shape)).encode())
    for tensor in (inputs, targets):
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()
