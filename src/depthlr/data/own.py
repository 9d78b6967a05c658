"""A user's own data: any DataLoader or iterable of (inputs, target) batches, gathered into memory once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import torch
from torch import Tensor

from depthlr.data.examples import Examples
from depthlr.errors import DepthlrError, kind_and_message
from depthlr.python_name import called


@dataclass(frozen=True, eq=False)
class TensorSet:
    """Examples as the user made them: inputs are passed to the model, and targets to the loss, unchanged."""

    name: str
    inputs: Tensor = field(repr=False)  # (N, ...)
    targets: Tensor = field(repr=False)  # (N, ...)
    attribution: str = "the user's own"

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets) or not len(self.inputs):
            raise DepthlrError(
                f"{self.name} has {len(self.inputs)} inputs and {len(self.targets)} targets: match them."
            )

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def classes(self) -> int:
        """Values an integer target can have; 0 for numbers to regress on."""
        return 0 if self.targets.is_floating_point() else int(self.targets.max()) + 1

    @property
    def digest(self) -> str:
        digest = hashlib.sha256()
        for tensor in (self.inputs, self.targets):
            digest.update(repr((str(tensor.dtype), *tensor.shape)).encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    @property
    def input(self) -> str:
        if self.inputs.dim() < 2:
            raise DepthlrError(
                f"{self.name} has inputs of shape {tuple(self.inputs.shape)}: give every example a shape of its own, "
                f"such as {(len(self), 1)}."
            )
        if self.inputs.is_floating_point():
            return "x".join(map(str, self.inputs.shape[1:]))
        return f"ids:{self.inputs.shape[1]}:{int(self.inputs.max()) + 1}"

    def to(self, device: torch.device | str) -> Self:
        return replace(self, inputs=self.inputs.to(device), targets=self.targets.to(device))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        return self.inputs.index_select(0, indices), self.targets.index_select(0, indices)


def gathered(name: str, batches: Iterable[Any]) -> TensorSet:
    """All examples of an iterable of (inputs, target) batches, in its order."""
    inputs, targets = [], []
    for batch in batches:
        pair = isinstance(batch, tuple | list) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch)
        if not pair:
            raise DepthlrError(
                f"{name} gave a batch of type {type(batch).__name__}: give pairs of tensors, (inputs, target)."
            )
        inputs.append(batch[0].detach().cpu())
        targets.append(batch[1].detach().cpu())
    if not inputs:
        raise DepthlrError(f"{name} gave no batches: check what it iterates over.")
    try:
        return TensorSet(name, torch.cat(inputs), torch.cat(targets))
    except RuntimeError as error:
        raise DepthlrError(f"{name} gave batches of different shapes ({error}): pad or crop them alike.") from error


def load_own(name: str, options: Mapping[str, Any]) -> Examples:
    """The examples that `package.module:callable` returns: a DataLoader, an iterable of batches, or Examples."""
    try:
        return _loaded(name, options)
    except DepthlrError:
        raise
    except Exception as error:
        raise DepthlrError(f"{name} could not be loaded ({kind_and_message(error)}).") from error


def _loaded(name: str, options: Mapping[str, Any]) -> Examples:
    made = called(name, options)
    if hasattr(made, "batch") and hasattr(made, "digest"):
        examples: Examples = made
        return examples
    if isinstance(made, Tensor) or not isinstance(made, Iterable):
        raise DepthlrError(f"{name} returned {type(made).__name__}: return a DataLoader or an iterable of batches.")
    return gathered(name, made)
