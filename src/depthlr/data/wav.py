"""Spoken words from WAV clips, as log-mel spectrograms."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import torch

from depthlr.data.dataset import DataSet
from depthlr.data.digests import check_recorded
from depthlr.data.labelled_files import labelled_files
from depthlr.data.mel import HOP, WINDOW, Floats, log_mel, mel_filters
from depthlr.errors import DepthlrError

RATE = 8_000
ATTRIBUTION = "your own folder; its publisher's terms hold (Free Spoken Digit Dataset: CC BY-SA 4.0, Z. Jackson et al.)"


def load_wav(folder: Path, mels: int = 32, frames: int = 64) -> DataSet:
    """Clips as uint8 (N, 1, mels, frames), the class by folder or by the name's start, as in `7_jackson_0.wav`."""
    filters = mel_filters(mels, RATE)
    files = labelled_files(folder, (".wav",))
    length = WINDOW + HOP * (frames - 1)
    clips = np.stack([log_mel(_samples(files.root / path, length), filters, frames) for path in files.paths])
    labels = torch.tensor(files.labels, dtype=torch.int64)
    data = DataSet.of("wav", torch.from_numpy(clips)[:, None], labels, len(files.classes), ATTRIBUTION)
    check_recorded(files.root, "**/*.wav", files.digest())
    return data


def _samples(path: Path, length: int) -> Floats:
    """At most `length` samples in -1..1."""
    try:
        with wave.open(str(path), "rb") as clip:
            form = (clip.getframerate(), clip.getnchannels(), clip.getsampwidth())
            content = clip.readframes(length)
    except (wave.Error, EOFError, OSError) as error:
        raise DepthlrError(f"{path} is no WAV clip that can be read ({error}): replace it or remove it.") from error
    if form != (RATE, 1, 2):
        rate, channels, width = form
        raise DepthlrError(
            f"{path} has {rate} Hz, {channels} channels and {8 * width} bits: convert the clips to {RATE} Hz mono with "
            f"16 bits, as sox IN.wav -r {RATE} -c 1 -b 16 OUT.wav does."
        )
    if len(content) % 2:
        raise DepthlrError(f"{path} ends in the middle of a sample: replace it or remove it.")
    return np.frombuffer(content, "<i2") / 32768
