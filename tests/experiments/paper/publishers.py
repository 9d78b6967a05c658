"""Tiny data sets in their publishers' layouts, below one folder as `depthlr reproduce --data` takes it."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.data.published import binary_rows, examples, publish

from depthlr.data.cifar import CIFAR10, load_cifar
from depthlr.data.sources import SOURCES, Source

COUNT = 20


def publish_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Random CIFAR-10 and 100, images, clips and text; the copy of CIFAR-10 counts as published."""
    copy = publish(CIFAR10, 0, folder, archived=False)
    monkeypatch.setitem(SOURCES, "cifar10", Source(lambda place: load_cifar(copy, place)))
    (folder / "cifar-100-binary").mkdir()
    (folder / "cifar-100-binary" / "train.bin").write_bytes(binary_rows(*examples(COUNT, 100), label_bytes=2))
    generator = np.random.default_rng(0)
    for index in range(COUNT):
        image = folder / "tiny-imagenet-100" / "train" / f"n{index % 4}" / f"{index}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(256, size=(64, 64, 3), dtype=np.uint8)).save(image)
        clip = folder / "fsdd" / "recordings" / f"{index % 4}_someone_{index}.wav"
        clip.parent.mkdir(parents=True, exist_ok=True)
        with wave.open(str(clip), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(generator.integers(-9000, 9000, size=4000, dtype=np.int16).tobytes())
    (folder / "tinyshakespeare").mkdir()
    (folder / "tinyshakespeare" / "input.txt").write_text("to be, or not to be: that is the question. " * 5)
    return folder
