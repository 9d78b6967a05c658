"""The data of RealBench, packed into one folder by a command, each file with its digest.

    python -m experiments.realbench data --cifar DATA --wav DATA/fsdd/recordings --out realbench-data

Text: the Python sources of three pinned wheels, as bytes. Images: 30,000 of CIFAR's training images, drawn by a seed
and packed without loss. Audio: log-mel spectrograms of the Free Spoken Digit Dataset.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from depthlr.data import load
from depthlr.data.sets import DataSet
from depthlr.data.text import TextSet
from depthlr.errors import DepthlrError

WHEELS = ("sympy==1.14.0", "networkx==3.6.1", "transformers==5.22.2")
TEXT_BYTES = 24 * 2**20
MOST_BYTES = 100_000  # of one file: larger ones are tables that programs wrote
IMAGES, ROW = 30_000, 200  # images, and how many stand in one row of the packed picture
VOCABULARY, MASK, NO_TARGET = 256, 256, -100
DIGESTS = {  # sha256 of what the packed files hold
    "text": "bf6046ed83e781417c1fbd628cb9518279aa737866823a0c2eb3b847e46dd8a3",
    "cifar10": "79260588e8a9e79104b28ac1a5bea52829c2d6e747f9fd938dfd5edf6a030467",
    "cifar100": "cc173f3bdb19c0ce012acb790244ee6fccce8bce2d551712119435818245b7ca",
    "spoken": "26ae92712cbdb72a3dbc0d9baceb3a3ddfa7d1314843fe6a2d5481befc81f941",
}


def text(folder: str, context: int = 256) -> TextSet:
    """Windows of the text that do not overlap, each predicting its next bytes."""
    content = lzma.decompress((Path(folder) / "text.xz").read_bytes())
    digest = _checked("text", content)
    ids = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    characters = "".join(map(chr, range(VOCABULARY)))
    return TextSet(
        "text", ids, context, characters, digest, "sympy and networkx (BSD), transformers (Apache 2.0)", stride=context
    )


@dataclass(frozen=True, eq=False)
class Masked:
    """Windows of which 15 % of the bytes are hidden and to be predicted, always the same ones of a window."""

    windows: TextSet
    multiplier: Tensor = field(repr=False)  # (context,), odd numbers that scatter places

    @property
    def name(self) -> str:
        return "masked text"

    @property
    def classes(self) -> int:
        return VOCABULARY + 1

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.windows.digest} masked".encode()).hexdigest()

    @property
    def attribution(self) -> str:
        return self.windows.attribution

    @property
    def input(self) -> str:
        return f"ids:{self.windows.context}:{self.classes}"

    def __len__(self) -> int:
        return len(self.windows)

    def to(self, device: torch.device | str) -> Self:
        return replace(self, windows=self.windows.to(device), multiplier=self.multiplier.to(device))

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        ids, _ = self.windows.batch(indices)
        scattered = ((indices[:, None] + 1) * self.multiplier) % 1_000_003 % 100
        hidden = scattered < 15
        return torch.where(hidden, MASK, ids), torch.where(hidden, ids, NO_TARGET)


def masked(folder: str, context: int = 256) -> Masked:
    """The text with bytes to fill in."""
    multiplier = torch.randint(1, 500_000, (context,), generator=torch.Generator().manual_seed(0)) * 2 + 1
    return Masked(text(folder, context), multiplier)


def images(folder: str, name: str = "cifar10") -> DataSet:
    """30,000 training images of cifar10 or cifar100."""
    from PIL import Image

    with np.load(Path(folder) / f"{name}.npz") as packed:
        picture = np.asarray(Image.open(io.BytesIO(packed["webp"].tobytes())).convert("RGB"))
        labels = packed["labels"].astype(np.int64)
    tiles = picture.reshape(IMAGES // ROW, 32, ROW, 32, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32)
    _checked(name, tiles.tobytes() + labels.tobytes())
    classes = 10 if name == "cifar10" else 100
    inputs = torch.from_numpy(np.ascontiguousarray(tiles))
    return DataSet.from_tensors(name, inputs, torch.from_numpy(labels), classes, "A. Krizhevsky, 2009")


def spoken(folder: str) -> DataSet:
    """Spectrograms of 3,000 spoken digits, uint8 (N, 1, 32, 64)."""
    with np.load(Path(folder) / "spoken.npz") as packed:
        clips, labels = packed["clips"], packed["labels"]
    _checked("spoken", clips.tobytes() + labels.tobytes())
    return DataSet.from_tensors(
        "spoken", torch.from_numpy(clips), torch.from_numpy(labels), 10, "Free Spoken Digit Dataset"
    )


# -- packing -----------------------------------------------------------------------------------------------------------
def pack_text(out: Path) -> str:
    """Download the wheels and write their Python sources; the digest of what was written."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder]
        subprocess.run([*command, *WHEELS], check=True)
        files: dict[str, bytes] = {}
        for wheel in sorted(Path(folder).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                sources = [one for one in archive.infolist() if one.filename.endswith(".py")]
                files |= {one.filename: archive.read(one) for one in sources if one.file_size <= MOST_BYTES}
    # By a hash of the name, so that every part of the text is like the rest.
    order = sorted(files, key=lambda name: hashlib.sha256(name.encode()).digest())
    content = b"".join(files[name] for name in order)[:TEXT_BYTES]
    (out / "text.xz").write_bytes(lzma.compress(content, preset=6))
    return _digest(content)


def pack_images(name: str, folder: Path, out: Path) -> str:
    """Draw 30,000 training images by a fixed seed and pack them into one lossless picture."""
    from PIL import Image

    whole: Any = load(name, folder)
    chosen = torch.randperm(len(whole), generator=torch.Generator().manual_seed(0))[:IMAGES]
    pixels, labels = whole.inputs[chosen].numpy(), whole.targets[chosen].numpy()
    picture = pixels.reshape(IMAGES // ROW, ROW, 3, 32, 32).transpose(0, 3, 1, 4, 2).reshape(-1, ROW * 32, 3)
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "webp", lossless=True, quality=60, method=4)
    np.savez(out / f"{name}.npz", webp=np.frombuffer(buffer.getvalue(), np.uint8), labels=labels.astype(np.uint8))
    return _digest(pixels.tobytes() + labels.tobytes())


def pack_spoken(folder: Path, out: Path) -> str:
    """Spectrograms of the recordings."""
    whole: Any = load("wav", folder)
    clips, labels = whole.inputs.numpy(), whole.targets.numpy()
    np.savez_compressed(out / "spoken.npz", clips=clips, labels=labels)
    return _digest(clips.tobytes() + labels.tobytes())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _checked(name: str, content: bytes) -> str:
    digest = _digest(content)
    if digest != DIGESTS[name]:
        raise DepthlrError(f"{name} of RealBench has digest {digest}, not {DIGESTS[name]}: pack the data again.")
    return digest
