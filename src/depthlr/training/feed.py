"""The batches of a run, one after the other.

Data in the memory of the device are taken by their indices. Data that stay on the host are copied into fixed buffers on
the device before each step, so a CUDA graph captures the same step, and a replay reads the batch that was copied last.
Copies from pinned memory are asynchronous, so the host reads the next batch while the GPU computes.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from depthlr.data.batches import Batch
from depthlr.data.examples import Examples, is_on_host
from depthlr.errors import DepthlrError, one_sentence_errors


class Feed:
    """The batches of an order: `restart` begins it, and `advance` and `take` go on to the next batch.

    Args:
        examples: The data set, after `to(device)`.
        batches: The number of batches in an order.
        batch: The number of examples in a batch.
        device: Where the batches are used.
        loaders: Processes that read batches ahead for a GPU, of data that stay on the host. On a CPU, the cores train.
    """

    def __init__(self, examples: Examples, batches: int, batch: int, device: torch.device, loaders: int = 0) -> None:
        self._examples, self._on_host = examples, is_on_host(examples)
        self._loaders = loaders if device.type == "cuda" else 0
        if self._on_host:
            one = _read(examples, torch.zeros(1, dtype=torch.int64))
            self._buffers = [torch.empty(batch, *p.shape[1:], dtype=p.dtype, device=device) for p in one]
            self._rows = torch.arange(batch, device=device)
            self._batches: Iterator[Batch | DepthlrError] = iter(())
        else:
            self._order = torch.zeros(batches, batch, dtype=torch.int64, device=device)
            self._place = torch.zeros(1, dtype=torch.int64, device=device)

    def restart(self, order: Tensor) -> None:
        """Begin a run or a pass.

        Args:
            order: The indices of the examples of every batch, int64 (batches, batch); on the host if the examples are.
        """
        if not self._on_host:
            self._order.copy_(order)
            self._place.zero_()
            return
        loader = DataLoader(
            _Batches(self._examples, order),
            batch_size=None,  # an item is a batch already
            num_workers=self._loaders,
            generator=torch.Generator(),  # a loader draws a seed, by default from the state that models draw from
        )
        self._batches = iter(loader)

    def advance(self) -> None:
        """Before each batch: copy it into the buffers, if it lies on the host. No part of a captured step."""
        if not self._on_host:
            return
        batch = next(self._batches)
        if isinstance(batch, DepthlrError):
            raise batch
        for buffer, read in zip(self._buffers, batch, strict=True):
            # Pinned here: a loader pins in a thread of its own, which would break a capture that is under way.
            buffer.copy_(read.pin_memory() if buffer.is_cuda else read, non_blocking=True)

    def take(self) -> Tensor:
        """The indices of the next batch, for `batch`. Tensor work that a CUDA graph can capture."""
        if self._on_host:
            return self._rows
        indices = self._order.index_select(0, self._place).squeeze(0)
        self._place.add_(1)
        return indices

    def batch(self, indices: Tensor) -> Batch:
        """Return the examples of these indices.

        Args:
            indices: Those of `take`, or a part of them.
        """
        if not self._on_host:
            return self._examples.batch(indices)
        inputs, target = self._buffers
        return inputs.index_select(0, indices), target.index_select(0, indices)


class _Batches(Dataset[Batch | DepthlrError]):
    """The batches of an order by their number, so that a DataLoader can read them.

    An error is returned, not raised: a loader's process would add its traceback to the sentence.
    """

    def __init__(self, examples: Examples, order: Tensor) -> None:
        self._examples, self._order = examples, order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, step: int) -> Batch | DepthlrError:
        try:
            return _read(self._examples, self._order[step])
        except DepthlrError as error:
            return error


def _read(examples: Examples, indices: Tensor) -> Batch:
    """Read a batch, or raise one sentence: data sets are other people's code, and their files may be damaged."""
    with one_sentence_errors(f"a batch of {examples.name} could not be read"):
        return examples.batch(indices)
