"""Images or spectrograms as bytes (`DataSet`), and a user's own data: tensors (`TensorSet`) or a torch `Dataset`."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from depthlr.data.examples import Examples
from depthlr.data.files import spread
from depthlr.errors import DepthlrError, one_sentence_errors
from depthlr.python_name import call_by_name
from depthlr.random_states import preserve_random_states

SAMPLED_EXAMPLES = 64  # of a torch `Dataset`, for its digest


@dataclass(frozen=True, eq=False)
class DataSet:
    """Images or spectrograms with labels. `mean` and `std`, in units of the stored bytes, normalize each channel."""

    name: str
    inputs: Tensor = field(repr=False)  # uint8 (N, C, H, W)
    targets: Tensor = field(repr=False)  # int64 (N,)
    classes: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    digest: str
    attribution: str
    # Mean and std, (2, C, 1, 1), on the device of the inputs. A tensor made from Python numbers inside `batch` would be
    # a copy from the host, which a CUDA graph cannot capture.
    _moments: Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        moments = torch.tensor([self.mean, self.std], dtype=torch.float32, device=self.inputs.device)
        object.__setattr__(self, "_moments", moments[..., None, None])

    @classmethod
    def from_tensors(cls, name: str, inputs: Tensor, targets: Tensor, classes: int, attribution: str) -> Self:
        """Make a data set whose mean, std and digest are computed from the inputs.

        Args:
            name: the name of the data set.
            inputs: uint8 (N, C, H, W).
            targets: int64 (N,), labels from 0 to classes - 1.
            classes: the number of classes.
            attribution: the authors and the terms of use.
        """
        if not len(inputs):
            raise DepthlrError(f"{name} holds no examples: name a folder that holds some.")
        if not 0 <= int(targets.min()) <= int(targets.max()) < classes:
            raise DepthlrError(
                f"{name} has labels from {int(targets.min())} to {int(targets.max())}, but {classes} classes "
                f"need labels from 0 to {classes - 1}: the files are damaged or of another data set; fetch them again."
            )
        mean, std = channel_moments(inputs)
        return cls(name, inputs, targets, classes, mean, std, examples_digest(inputs, targets), attribution)

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def input(self) -> str:
        return "x".join(map(str, self.inputs.shape[1:]))

    def to(self, device: torch.device | str) -> Self:
        return replace(self, inputs=self.inputs.to(device), targets=self.targets.to(device))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:  # int64 (B,) -> float32 (B, C, H, W), int64 (B,)
        mean, std = self._moments
        inputs = self.inputs.index_select(0, indices).to(torch.float32).sub_(mean).div_(std)
        return inputs, self.targets.index_select(0, indices)


def channel_moments(inputs: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the mean and the std of each channel, computed exactly from the histogram of the bytes.

    Args:
        inputs: uint8 (N, C, H, W).
    """
    means, stds = [], []
    values = torch.arange(256, dtype=torch.float64)
    for channel in inputs.unbind(1):
        share = torch.bincount(channel.reshape(-1), minlength=256).double() / channel.numel()
        mean = (share * values).sum()
        means.append(float(mean))
        stds.append(float((share * (values - mean) ** 2).sum().sqrt()) or 1.0)  # a constant channel becomes 0, not nan
    return tuple(means), tuple(stds)


def examples_digest(inputs: Tensor, targets: Tensor) -> str:
    """Return the sha256 of shape, inputs and targets, whatever file or archive they came from.

    Args:
        inputs: the inputs of all examples.
        targets: the targets of all examples.
    """
    digest = hashlib.sha256(repr((str(inputs.dtype), *inputs.shape)).encode())
    for tensor in (inputs, targets):
        digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class TensorSet:
    """A user's own examples. The model gets the inputs, and the loss the targets, without a change."""

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
        """The number of values that an integer target can have; 0 for regression."""
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


def gather_batches(name: str, batches: Iterable[Any]) -> TensorSet:
    """Collect all batches of an iterable in memory, in its order.

    Args:
        name: the name of the data set.
        batches: a DataLoader, or any iterable of pairs of tensors (inputs, target).
    """
    inputs, targets = [], []
    for batch in batches:
        pair = isinstance(batch, tuple | list) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch)
        if not pair:
            raise DepthlrError(
                f"{name} returned a batch of type {type(batch).__name__}: return pairs of tensors, (inputs, target)."
            )
        inputs.append(batch[0].detach().cpu())
        targets.append(batch[1].detach().cpu())
    if not inputs:
        raise DepthlrError(f"{name} returned no batches: check what it iterates over.")
    with one_sentence_errors(f"{name} returned batches of different shapes: pad or crop them"):
        return TensorSet(name, torch.cat(inputs), torch.cat(targets))


@dataclass(frozen=True, eq=False)
class TorchDataset:
    """A map-style torch `Dataset` that a user's callable returns. Its examples are read batch by batch.

    Another process calls the callable again, so the data set is never copied. Whatever `__getitem__` draws at random is
    seeded by the indices of the batch: the same indices always give the same batch, in every process.
    """

    name: str  # package.module:callable
    options: Mapping[str, Any]
    attribution: str = "the user's own"
    on_host: ClassVar[bool] = True

    @cached_property
    def dataset(self) -> Any:
        """What the callable returns."""
        return call_by_name(self.name, self.options)

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "options": self.options, "attribution": self.attribution}

    def __len__(self) -> int:
        return len(self.dataset)

    @cached_property
    def _sample(self) -> TensorSet:
        """Examples at even distances: what is known of the data without reading all of it."""
        return TensorSet(self.name, *self.batch(torch.tensor(spread(len(self), SAMPLED_EXAMPLES))))

    @property
    def classes(self) -> int:
        """The length of `dataset.classes`, as torchvision has it, or else as many as the sampled targets show."""
        if hasattr(self.dataset, "classes"):
            return len(self.dataset.classes)
        return self._sample.classes

    @property
    def digest(self) -> str:
        """The sha256 of the number of examples and of the sampled examples."""
        return hashlib.sha256(f"{len(self)} {self._sample.digest}".encode()).hexdigest()

    @property
    def input(self) -> str:
        return self._sample.input

    def to(self, device: torch.device | str) -> Self:
        """Stay on the host."""
        return self

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        chosen = indices.tolist()
        with preserve_random_states(zlib.crc32(repr(chosen).encode()), devices=[]):
            if hasattr(self.dataset, "__getitems__"):
                items = self.dataset.__getitems__(chosen)
            else:
                items = [self.dataset[index] for index in chosen]
        with one_sentence_errors(
            f"{self.name} has examples that make no batch: return pairs of an input and a target, tensors or numbers, "
            "all of the same shape"
        ):
            inputs, target = (_single_precision(part) for part in default_collate(items))
        return inputs, target


def _single_precision(part: Any) -> Tensor:
    """Python's numbers become double precision in a batch, which models do not take."""
    if not isinstance(part, Tensor):
        raise TypeError(f"a part of type {type(part).__name__}")
    return part.float() if part.dtype == torch.float64 else part


def load_from_callable(name: str, options: Mapping[str, Any]) -> Examples:
    """Load the data that a user's callable returns.

    Args:
        name: `package.module:callable`. It returns a map-style `Dataset`, which is read batch by batch; a DataLoader or
            an iterable of batches, which are gathered in memory; or `Examples`.
        options: the keyword arguments of the callable.
    """
    with one_sentence_errors(f"{name} could not be loaded"):
        made = call_by_name(name, options)
        if hasattr(made, "batch") and hasattr(made, "digest"):
            examples: Examples = made
            return examples
        if isinstance(made, Dataset) and not isinstance(made, Iterable):  # a map-style one
            found = TorchDataset(name, dict(options))
            vars(found)["dataset"] = made  # it need not be made again here
            found.input  # noqa: B018 (reads the sampled examples, and says what is wrong with them)
            return found
        return gather_batches(name, made)
