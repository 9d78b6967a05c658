"""Random states that models draw from: torch's, numpy's and Python's, kept, and seeded if asked."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator

import numpy as np
import torch


@contextlib.contextmanager
def random_states_kept(seed: int | None = None, devices: Iterable[torch.device] | None = None) -> Iterator[None]:
    """What is drawn inside, from `seed` where it is given, leaves no trace; `devices` are the GPUs it is drawn on."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    # All of them, if not told: torch would do the same, with a warning where there are several.
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
    """The CPU and these GPUs: torch.manual_seed would seed every other one too, whose state is not kept."""
    if not torch.cuda.is_available():
        torch.manual_seed(seed)  # other devices cannot be forked, but two runs on them must draw alike
        return
    torch.default_generator.manual_seed(seed)
    for gpu in gpus:
        with torch.cuda.device(gpu):
            torch.cuda.manual_seed(seed)
