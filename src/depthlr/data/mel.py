"""Log-mel spectrograms: how loud a sound is over time, in bands as wide as the ear's."""

from typing import Any

import numpy as np

from depthlr.errors import DepthlrError

Floats = np.ndarray[Any, np.dtype[np.float64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

WINDOW = 256  # samples of one frame: 32 ms at 8 kHz
HOP = 80  # samples from frame to frame: 10 ms
FLOOR = -100.0  # decibels below a full-scale sine that become byte 0; 0 dB becomes 255


def mel_filters(mels: int, rate: int) -> Floats:
    """Triangles (mels, WINDOW // 2 + 1), evenly spaced in mel from 0 to half the sampling rate, each of height 1."""
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, mels + 2) / 2595) - 1)
    bins = np.fft.rfftfreq(WINDOW, 1 / rate)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    filters = np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)).clip(min=0)
    if not filters.any(axis=1).all():
        raise DepthlrError(f"{mels} mel bands are finer than the spectrum: choose fewer, such as 32.")
    return np.asarray(filters)


def log_mel(samples: Floats, filters: Floats, frames: int) -> Bytes:
    """uint8 (mels, frames) of samples in -1..1; what is too short is padded with silence, what is too long is cut."""
    needed = WINDOW + HOP * (frames - 1)
    padded = np.pad(samples[:needed], (0, max(0, needed - len(samples))))
    framed = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]  # (frames, WINDOW)
    window = np.hanning(WINDOW + 1)[:-1]
    # A full-scale sine in the middle of a bin has amplitude 1 there, hence 0 dB.
    power = np.abs(np.fft.rfft(framed * window) * 2 / window.sum()) ** 2
    decibels = 10 * np.log10(np.maximum(filters @ power.T, 10 ** (FLOOR / 10)))
    return np.asarray(np.rint((decibels - FLOOR) / -FLOOR * 255).clip(0, 255), np.uint8)
