"""Labelled WAV clips, as log-mel spectrograms."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from depthlr.data.files import check_recorded, find_labelled_files
from depthlr.data.sets import DataSet
from depthlr.errors import DepthlrError, one_sentence_errors

WINDOW = 256  # samples in a frame: 32 ms at 8 kHz
HOP = 80  # samples from one frame to the next: 10 ms
FLOOR = -100.0  # decibels relative to a full-scale sine; this becomes byte 0, and 0 dB becomes 255

SAMPLE_RATE = 8_000
AUDIO_ATTRIBUTION = (
    "your own folder; its publisher's terms hold (Free Spoken Digit Dataset: CC BY-SA 4.0, Z. Jackson et al.)"
)


def load_wav(folder: Path, mels: int = 32, frames: int = 64, split: str | None = None) -> DataSet:
    """Load clips as spectrograms, uint8 (N, 1, mels, frames).

    Args:
        folder: one folder per class, or one folder of files named `LABEL_anything.wav`, such as `7_jackson_0.wav`.
        mels: the number of mel bands.
        frames: the number of frames, 10 ms apart; shorter clips are padded with silence, longer ones are cut.
        split: load this folder beside `train/`, such as `test`.
    """
    filters = mel_filters(mels, SAMPLE_RATE)
    files = find_labelled_files(folder, (".wav",), split)
    length = WINDOW + HOP * (frames - 1)
    samples = (_read_samples(files.root / path, length) for path in files.paths)
    clips = np.stack([log_mel(clip, filters, frames) for clip in samples])
    labels = torch.tensor(files.labels, dtype=torch.int64)
    data = DataSet.from_tensors("wav", torch.from_numpy(clips)[:, None], labels, len(files.classes), AUDIO_ATTRIBUTION)
    check_recorded(files.root, "**/*.wav", files.digest())
    return data


def _read_samples(path: Path, length: int) -> NDArray[np.float64]:
    """Read at most `length` samples, from -1 to 1."""
    with (
        one_sentence_errors(f"{path} cannot be read as a WAV clip: replace it or remove it"),
        wave.open(str(path), "rb") as clip,
    ):
        form = (clip.getframerate(), clip.getnchannels(), clip.getsampwidth())
        content = clip.readframes(length)
    if form != (SAMPLE_RATE, 1, 2):
        rate, channels, width = form
        raise DepthlrError(
            f"{path} has {rate} Hz, {channels} channels and {8 * width} bits: convert the clips to {SAMPLE_RATE} Hz "
            f"mono with 16 bits, as sox IN.wav -r {SAMPLE_RATE} -c 1 -b 16 OUT.wav does."
        )
    if len(content) % 2:
        raise DepthlrError(f"{path} ends in the middle of a sample: replace it or remove it.")
    return np.frombuffer(content, "<i2") / 32768


def mel_filters(mels: int, rate: int) -> NDArray[np.float64]:
    """Return triangular filters, (mels, WINDOW // 2 + 1), of height 1, evenly spaced in mel up to half the sample rate.

    Args:
        mels: the number of filters.
        rate: the sample rate in Hz.
    """
    top = 2595 * np.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, mels + 2) / 2595) - 1)
    bins = np.fft.rfftfreq(WINDOW, 1 / rate)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    filters = np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)).clip(min=0)
    if not filters.any(axis=1).all():
        raise DepthlrError(f"{mels} mel bands are finer than the spectrum: choose fewer, such as 32.")
    return np.asarray(filters)


def log_mel(samples: NDArray[np.float64], filters: NDArray[np.float64], frames: int) -> NDArray[np.uint8]:
    """Return the log-mel spectrogram of a clip, uint8 (mels, frames).

    Args:
        samples: numbers from -1 to 1. A short clip is padded with silence, a long one is cut.
        filters: the filters that `mel_filters` returns.
        frames: the number of frames.
    """
    needed = WINDOW + HOP * (frames - 1)
    padded = np.pad(samples[:needed], (0, max(0, needed - len(samples))))
    framed = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]  # (frames, WINDOW)
    window = np.hanning(WINDOW + 1)[:-1]
    # Scaled so that a full-scale sine at the centre of a bin has amplitude 1, which is 0 dB.
    power = np.abs(np.fft.rfft(framed * window) * 2 / window.sum()) ** 2
    decibels = 10 * np.log10(np.maximum(filters @ power.T, 10 ** (FLOOR / 10)))
    return np.asarray(np.rint((decibels - FLOOR) / -FLOOR * 255).clip(0, 255), np.uint8)
