"""Spoken words from WAV clips, as log-mel spectrograms."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from depthlr.data.files import check_recorded, find_labelled_files
from depthlr.data.sets import DataSet
from depthlr.errors import DepthlrError

SAMPLE_RATE = 8_000
AUDIO_ATTRIBUTION = (
    "your own folder; its publisher's terms hold (Free Spoken Digit Dataset: CC BY-SA 4.0, Z. Jackson et al.)"
)


def load_wav(folder: Path, mels: int = 32, frames: int = 64) -> DataSet:
    """Clips as uint8 (N, 1, mels, frames), the class by folder or by the name's start, as in `7_jackson_0.wav`."""
    filters = mel_filters(mels, SAMPLE_RATE)
    files = find_labelled_files(folder, (".wav",))
    length = WINDOW + HOP * (frames - 1)
    clips = np.stack([log_mel(_read_samples(files.root / path, length), filters, frames) for path in files.paths])
    labels = torch.tensor(files.labels, dtype=torch.int64)
    data = DataSet.from_tensors("wav", torch.from_numpy(clips)[:, None], labels, len(files.classes), AUDIO_ATTRIBUTION)
    check_recorded(files.root, "**/*.wav", files.digest())
    return data


def _read_samples(path: Path, length: int) -> NDArray[np.float64]:
    """At most `length` samples in -1..1."""
    try:
        with wave.open(str(path), "rb") as clip:
            form = (clip.getframerate(), clip.getnchannels(), clip.getsampwidth())
            content = clip.readframes(length)
    except (wave.Error, EOFError, OSError) as error:
        raise DepthlrError(f"{path} is no WAV clip that can be read ({error}): replace it or remove it.") from error
    if form != (SAMPLE_RATE, 1, 2):
        rate, channels, width = form
        raise DepthlrError(
            f"{path} has {rate} Hz, {channels} channels and {8 * width} bits: convert the clips to {SAMPLE_RATE} Hz "
            f"mono with 16 bits, as sox IN.wav -r {SAMPLE_RATE} -c 1 -b 16 OUT.wav does."
        )
    if len(content) % 2:
        raise DepthlrError(f"{path} ends in the middle of a sample: replace it or remove it.")
    return np.frombuffer(content, "<i2") / 32768


WINDOW = 256  # samples of one frame: 32 ms at 8 kHz
HOP = 80  # samples from frame to frame: 10 ms
FLOOR = -100.0  # decibels below a full-scale sine that become byte 0; 0 dB becomes 255


def mel_filters(mels: int, rate: int) -> NDArray[np.float64]:
    """Triangles (mels, WINDOW // 2 + 1), evenly spaced in mel from 0 to half the sampling rate, each of height 1."""
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, mels + 2) / 2595) - 1)
    bins = np.fft.rfftfreq(WINDOW, 1 / rate)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    filters = np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)).clip(min=0)
    if not filters.any(axis=1).all():
        raise DepthlrError(f"{mels} mel bands are finer than the spectrum: choose fewer, such as 32.")
    return np.asarray(filters)


def log_mel(samples: NDArray[np.float64], filters: NDArray[np.float64], frames: int) -> NDArray[np.uint8]:
    """uint8 (mels, frames) of samples in -1..1; what is too short is padded with silence, what is too long is cut."""
    needed = WINDOW + HOP * (frames - 1)
    padded = np.pad(samples[:needed], (0, max(0, needed - len(samples))))
    framed = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]  # (frames, WINDOW)
    window = np.hanning(WINDOW + 1)[:-1]
    # A full-scale sine in the middle of a bin has amplitude 1 there, hence 0 dB.
    power = np.abs(np.fft.rfft(framed * window) * 2 / window.sum()) ** 2
    decibels = 10 * np.log10(np.maximum(filters @ power.T, 10 ** (FLOOR / 10)))
    return np.asarray(np.rint((decibels - FLOOR) / -FLOOR * 255).clip(0, 255), np.uint8)
