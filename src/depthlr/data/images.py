"""A folder of images with one folder per class, such as ImageNet, resized once and cached."""

from __future__ import annotations

import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from numpy.typing import NDArray

from depthlr.data.files import LabelledFiles, cache_folder, check_recorded, find_labelled_files, replace_file
from depthlr.data.sets import DataSet, examples_digest
from depthlr.errors import DepthlrError

IMAGE_SUFFIXES = (".jpeg", ".jpg", ".png", ".webp", ".bmp")
IMAGES_ATTRIBUTION = (
    "your own folder; its publisher's terms hold (ImageNet's images: non-commercial research and education)"
)


def load_images(folder: Path, size: int = 64, cache: str | None = None, split: str | None = None) -> DataSet:
    """Load images as uint8 (N, 3, size, size): the short side is resized to `size`, then the central square is cropped.

    The result is cached under the digest of the files, so that the next load decodes no image.

    Args:
        folder: one folder per class, possibly in `train/`.
        size: the height and width of the result.
        cache: the folder of the cache; by default `images/` in depthlr's cache folder.
        split: load this folder beside `train/`, such as `val`.
    """
    files = find_labelled_files(folder, IMAGE_SUFFIXES, split)
    digest = files.digest()
    cached_folder = Path(cache) if cache else cache_folder() / "images"
    cached_file = cached_folder / f"{digest[:32]}-{size}.npz"
    cached = _read_cache(cached_file, len(files.paths), size)
    inputs = _decode(files, size) if cached is None else cached
    labels = torch.tensor(files.labels, dtype=torch.int64)
    data = DataSet.from_tensors("images", torch.from_numpy(inputs), labels, len(files.classes), IMAGES_ATTRIBUTION)
    check_recorded(files.root, f"**/*{'|'.join(IMAGE_SUFFIXES)}", digest)
    if cached is None:
        _write_cache(cached_file, inputs)
    return data


def _decode(files: LabelledFiles, size: int) -> NDArray[np.uint8]:
    inputs = np.empty((len(files.paths), 3, size, size), np.uint8)
    with ThreadPoolExecutor() as threads:  # Pillow releases the interpreter's lock while it decodes
        for i, image in enumerate(threads.map(lambda path: _read_square(files.root / path, size), files.paths)):
            inputs[i] = image
    return inputs


def _read_square(path: Path, size: int) -> NDArray[np.uint8]:  # (3, size, size)
    image_module = import_pillow()
    try:
        with image_module.open(path) as image:
            width, height = image.size
            scale = size / min(width, height)
            whole = image.convert("RGB").resize(
                (max(size, round(width * scale)), max(size, round(height * scale))), image_module.Resampling.BICUBIC
            )
    except (OSError, ValueError, SyntaxError, ZeroDivisionError, image_module.DecompressionBombError) as error:
        raise DepthlrError(f"{path} cannot be read as an image ({error}): replace it or remove it.") from error
    left, top = (whole.width - size) // 2, (whole.height - size) // 2
    return np.asarray(whole.crop((left, top, left + size, top + size)), np.uint8).transpose(2, 0, 1)


def _read_cache(path: Path, count: int, size: int) -> NDArray[np.uint8] | None:
    """Return the cached images, or None if they are absent or damaged: then they are decoded again."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            inputs, digest = arrays["inputs"], str(arrays["digest"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    if inputs.dtype != np.uint8 or inputs.shape != (count, 3, size, size) or _digest(inputs) != digest:
        return None
    return np.asarray(inputs)


def _write_cache(path: Path, inputs: NDArray[np.uint8]) -> None:
    try:
        with replace_file(path) as file:
            np.savez(file, inputs=inputs, digest=np.array(_digest(inputs)))
    except OSError:
        pass  # the next load decodes the images again


def _digest(inputs: NDArray[np.uint8]) -> str:
    return examples_digest(torch.from_numpy(inputs), torch.empty(0))


def import_pillow() -> ModuleType:
    """Import `PIL.Image`, an optional dependency that only images need."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DepthlrError("Reading images needs Pillow: run pip install depthlr[images].") from error
    return Image
