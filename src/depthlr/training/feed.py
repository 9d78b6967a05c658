"""Batches of data that stay on the host, copied into fixed buffers on the device before each step.

The buffers take the place of the examples in a step. So a CUDA graph captures the step as it does with data on the
device, and a replay reads the batch that was copied last. Copies from pinned memory are asynchronous, so the host reads
the next batch while the GPU computes.
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
    """One batch on a device, filled anew by `advance`.

    Args:
        examples: Data that stays on the host.
        batch: The number of examples in a batch.
        device: Where the batch is used.
        loaders: Processes that read batches ahead; 0 reads them in this process.
    """

    def __init__(self, examples: Examples, batch: int, device: torch.device, loaders: int = 0) -> None:
        self._examples, self._device, self._loaders = examples, device, loaders
        one = _read(examples, torch.zeros(1, dtype=torch.int64))
        self._inputs, self._target = (torch.empty(batch, *p.shape[1:], dtype=p.dtype, device=device) for p in one)
        self.indices = torch.arange(batch, device=device)  # of the examples in the buffers
        self._batches: Iterator[Batch | DepthlrError] = iter(())

    def restart(self, order: Tensor) -> None:
        """Begin a run or a pass.

        Args:
            order: The indices of the examples of every batch, int64 (steps, batch), on the CPU.
        """
        loader = DataLoader(
            _Batches(self._examples, order),
            batch_size=None,  # an item is a batch already
            num_workers=self._loaders,
            generator=torch.Generator(),  # a loader draws a seed, by default from the state that models draw from
        )
        self._batches = iter(loader)

    def advance(self) -> None:
        """Copy the next batch into the buffers. Asynchronous on a GPU."""
        batch = next(self._batches)
        if isinstance(batch, DepthlrError):
            raise batch
        for buffer, read in zip((self._inputs, self._target), batch, strict=True):
            # Pinned here: a loader pins in a thread of its own, which would break a capture that is under way.
            buffer.copy_(read.pin_memory() if buffer.is_cuda else read, non_blocking=True)

    def batch(self, indices: Tensor) -> Batch:
        """Return rows of the buffers, as `Examples.batch` returns examples.

        Args:
            indices: `self.indices`, or a part of them.
        """
        return self._inputs.index_select(0, indices), self._target.index_select(0, indices)


def open_feed(examples: Examples, batch: int, device: torch.device, loaders: int) -> Feed | None:
    """Return a feed for examples that stay on the host, and None for those in the memory of the device.

    Args:
        examples: The data set, after `to(device)`.
        batch: The number of examples in a batch.
        device: Where the batches are used.
        loaders: Processes that read batches ahead for a GPU. On a CPU, the cores train.
    """
    if not is_on_host(examples):
        return None
    return Feed(examples, batch, device, loaders if device.type == "cuda" else 0)


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
