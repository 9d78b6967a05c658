"""Random states of torch, numpy and Python, kept around code that draws from them."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator

import numpy as np
import torch


@contextlib.contextmanager
def preserve_random_states(seed: int | None = None, devices: Iterable[torch.device] | None = None) -> Iterator[None]:
    """Restore the random states of torch, numpy and Python afterwards.

    Args:
        seed: Seeds all of them inside the context, if given.
        devices: The GPUs whose states are restored; all GPUs if None.
    """
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    # torch would also take all GPUs by default, but with a warning if there are several.
    named = [*range(torch.cuda.device_count())] if devices is None else sorted(devices, key=str)
    with torch.random.fork_rng(devices=named):
        if seed is not None:
            _seed_torch(seed, named)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002 (models draw from the global state)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])  # noqa: NPY002


def _seed_torch(seed: int, gpus: Iterable[torch.device | int]) -> None:
    """Seed the CPU and these GPUs. torch.manual_seed would also seed other GPUs, whose states are not restored."""
    if not torch.cuda.is_available():
        torch.manual_seed(seed)  # other devices cannot be forked, but two runs on them must draw alike
        return
    torch.default_generator.manual_seed(seed)
    for gpu in gpus:
        with torch.cuda.device(gpu):
            torch.cuda.manual_seed(seed)
