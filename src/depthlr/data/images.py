"""A folder of images with one folder per class, such as ImageNet: resized once and cached, or read batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from depthlr.data.files import LabelledFiles, cache_folder, check_recorded, find_labelled_files, replace_file, spread
from depthlr.data.sets import DataSet, channel_moments, examples_digest
from depthlr.errors import DepthlrError, one_sentence_errors

IMAGE_SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".bmp")
MOMENT_FILES = 1000  # images whose mean and std normalize a folder that is not held in memory
IMAGES_ATTRIBUTION = (
    "your own folder; its publisher's terms hold (ImageNet's images: non-commercial research and education)"
)


def load_images(
    folder: Path, size: int = 64, cache: str | None = None, in_memory: bool = True, split: str | None = None
) -> DataSet | ImageFiles:
    """Load images as uint8 (N, 3, size, size): the short side is resized to `size`, then the central square is cropped.

    The result is cached under the digest of the files, so that the next load decodes no image. With `in_memory=False`
    nothing is cached, and a batch reads its own files.

    Args:
        folder: one folder per class, possibly in `train/`.
        size: the height and width of the result.
        cache: the folder of the cache; by default `images/` in depthlr's cache folder.
        in_memory: hold all images in memory, or decode those of a batch when it is read.
        split: load this folder beside `train/`, such as `val`.
    """
    files = find_labelled_files(folder, IMAGE_SUFFIXES, split)
    if not in_memory:
        return _open_files(files, size)
    digest = files.digest()
    cached_folder = Path(cache) if cache else cache_folder() / "images"
    cached_file = cached_folder / f"{digest[:32]}-{size}.npz"
    cached = _read_cache(cached_file)
    inputs = _decode(files, size, range(len(files.paths))) if cached is None else cached
    labels = torch.tensor(files.labels, dtype=torch.int64)
    data = DataSet.from_tensors("images", torch.from_numpy(inputs), labels, len(files.classes), IMAGES_ATTRIBUTION)
    check_recorded(files.root, f"**/*{'|'.join(IMAGE_SUFFIXES)}", digest)
    if cached is None:
        _write_cache(cached_file, inputs)
    return data


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Images that stay in their files. A batch is decoded when it is read, by as many threads as torch uses."""

    name: str
    files: LabelledFiles = field(repr=False)
    size: int
    mean: tuple[float, ...]  # in units of bytes, as `DataSet` has them
    std: tuple[float, ...]
    digest: str
    attribution: str
    on_host: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.files.paths)

    @property
    def classes(self) -> int:
        return len(self.files.classes)

    @property
    def input(self) -> str:
        return f"3x{self.size}x{self.size}"

    def to(self, device: torch.device | str) -> Self:
        """Stay on the host."""
        return self

    def batch(self, indices: Tensor) -> tuple[Tensor, Tensor]:  # int64 (B,) -> float32 (B, 3, size, size), int64 (B,)
        chosen = indices.tolist()
        inputs = torch.from_numpy(_decode(self.files, self.size, chosen, torch.get_num_threads())).to(torch.float32)
        mean, std = torch.tensor([self.mean, self.std], dtype=torch.float32)[..., None, None]
        return inputs.sub_(mean).div_(std), torch.tensor([self.files.labels[i] for i in chosen], dtype=torch.int64)


def _open_files(files: LabelledFiles, size: int) -> ImageFiles:
    """Describe images without reading all of them: mean and std are those of `MOMENT_FILES` images."""
    digest = files.sampled_digest()
    sample = torch.from_numpy(_decode(files, size, spread(len(files.paths), MOMENT_FILES)))
    mean, std = channel_moments(sample)
    check_recorded(files.root, f"sampled **/*{'|'.join(IMAGE_SUFFIXES)}", digest)
    return ImageFiles("images", files, size, mean, std, digest, IMAGES_ATTRIBUTION)


def _decode(files: LabelledFiles, size: int, indices: Sequence[int], threads: int | None = None) -> NDArray[np.uint8]:
    """Decode the files of these indices, uint8 (N, 3, size, size). Python chooses how many threads, unless told."""
    inputs = np.empty((len(indices), 3, size, size), np.uint8)
    paths = (files.root / files.paths[index] for index in indices)
    with ThreadPoolExecutor(threads) as pool:  # Pillow releases the interpreter's lock while it decodes
        for i, image in enumerate(pool.map(lambda path: _read_square(path, size), paths)):
            inputs[i] = image
    return inputs


def _read_square(path: Path, size: int) -> NDArray[np.uint8]:  # (3, size, size)
    image_module = import_pillow()
    with (
        one_sentence_errors(f"{path} cannot be read as an image: replace it or remove it"),
        image_module.open(path) as image,
    ):
        width, height = image.size
        scale = size / min(width, height)
        whole = image.convert("RGB").resize(
            (max(size, round(width * scale)), max(size, round(height * scale))), image_module.Resampling.BICUBIC
        )
    left, top = (whole.width - size) // 2, (whole.height - size) // 2
    return np.asarray(whole.crop((left, top, left + size, top + size)), np.uint8).transpose(2, 0, 1)


def _read_cache(path: Path) -> NDArray[np.uint8] | None:
    """Return the cached images, or None if they are absent or damaged: then they are decoded again."""
    with suppress(Exception), path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        inputs: NDArray[np.uint8] = arrays["inputs"]
        if _digest(inputs) == str(arrays["digest"]):
            return inputs
    return None


def _write_cache(path: Path, inputs: NDArray[np.uint8]) -> None:
    with suppress(OSError), replace_file(path) as file:  # else the next load decodes the images again
        np.savez(file, inputs=inputs, digest=np.array(_digest(inputs)))


def _digest(inputs: NDArray[np.uint8]) -> str:
    return examples_digest(torch.from_numpy(inputs), torch.empty(0))


def import_pillow() -> ModuleType:
    """Import `PIL.Image`, an optional dependency that only images need."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DepthlrError("Reading images needs Pillow: run pip install depthlr[images].") from error
    return Image
