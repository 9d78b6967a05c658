"""Faults around a study's file: where it lies, who else writes it, the clock, its age; and a download that breaks."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

from depthlr.data.download import download
from depthlr.errors import DepthlrError
from depthlr.study import open_store, read_results, sweep, to_csv
from depthlr.training import Cell, Outcome
from experiments.faults.scenario import Aftermath, Verdict, Watched, forked, wait_for
from experiments.landscape import Landscape, LandscapeExecutor

NOBODY = 65534
SCHEMAS = Path(__file__).parents[2] / "tests" / "golden" / "schemas"


def said_in_child(act: Callable[[], object]) -> str:
    """What a `DepthlrError` says that an act raises in a forked child; nothing if it raises none."""

    def say(writer: int) -> None:
        try:
            act()
        except DepthlrError as error:
            os.write(writer, str(error).encode())

    child, reader = forked(say)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    wait_for(child)
    return said


def file_size_limits(times: int, folder: Path) -> Verdict:
    """A sweep whose files may not grow beyond a size (RLIMIT_FSIZE)."""
    after = Aftermath(folder)
    path = folder / "study.sqlite"
    largest = (folder / "quiet.sqlite").stat().st_size
    for limit in range(0, largest, max(512, largest // times)):

        def limited(limit: int = limit) -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            sweep(after.given.study, LandscapeExecutor(after.given), path)

        says = said_in_child(limited)
        if not says:
            after.wrong.append(f"files of {limit} bytes: no sentence")
        after.add(path, f"files of {limit} bytes", says=says.replace(f"{folder}/", ""))
    return after.verdict()


def read_only_folder(times: int, folder: Path) -> Verdict:
    """A sweep begun, and resumed, in a folder and on a file that may not be written."""
    after = Aftermath(folder)
    with tempfile.TemporaryDirectory() as name:  # one that nobody may enter, where this is root
        place = Path(name)
        path = place / "study.sqlite"
        for count in range(times):
            place.chmod(0o755)
            if count % 2:
                with open_store(path, after.given.study):
                    pass
                path.chmod(0o444)
            before = path.read_bytes() if path.exists() else b""
            place.chmod(0o555)
            says = said_in_child(partial(_sweep_as_nobody, after.given, path))
            place.chmod(0o755)
            now = path.read_bytes() if path.exists() else b""
            if not says or now != before:
                after.wrong.append("no sentence" if not says else "the file changed")
            after.add(path, "read-only", says=says.replace(f"{place}/", ""))
    return after.verdict()


def _sweep_as_nobody(given: Landscape, path: Path) -> None:
    """Read a study and sweep it, as a user whom modes of files stop."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if path.exists():
        read_results(path)
    sweep(given.study, LandscapeExecutor(given), path)


def two_writers(times: int, folder: Path) -> Verdict:
    """A second sweep of a file that is being swept; the first one goes on."""
    after = Aftermath(folder)
    path = folder / "study.sqlite"
    for _ in range(times):
        said: list[str] = []

        sweep(after.given.study, _Joined(after.given, path, said), path)
        if not said[0]:
            after.wrong.append("two sweeps wrote one file")
        after.add(path, "two writers", after.expected.count("\n") - 1, _without_numbers(said[0], folder))
    return after.verdict()


class _Joined(Watched):
    """While it trains its third cell, another process tries to sweep the same file."""

    def __init__(self, given: Landscape, path: Path, said: list[str]) -> None:
        super().__init__(given)
        self.path, self.said = path, said

    def run(self, cell: Cell) -> Outcome:
        if len(self.trained) == 2:
            other = LandscapeExecutor(self.landscape)
            self.said.append(said_in_child(lambda: sweep(self.landscape.study, other, self.path)))
        return super().run(cell)


def _without_numbers(text: str, folder: Path) -> str:
    words = text.replace(f"{folder}/", "").split(" ")
    return " ".join("N" if word.isdigit() else word for word in words).replace(os.uname().nodename, "HOST")


class _Clock(datetime):
    """A clock that jumps to a random time of a century whenever it is read."""

    draw: ClassVar[random.Random] = random.Random(0)

    @classmethod
    def now(cls, tz: object = None) -> _Clock:
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=cls.draw.randint(-(10**9), 10**9) * 1.5)
        return cls.fromtimestamp(moment.timestamp(), UTC)


def clock_jumps(times: int, folder: Path) -> Verdict:
    """The system's clock jumps by decades between any two cells."""
    after = Aftermath(folder)
    path = folder / "study.sqlite"
    for _ in range(times):
        with patch("depthlr.study.record.datetime", _Clock), patch("time.time", lambda: _Clock.now().timestamp()):
            sweep(after.given.study, LandscapeExecutor(after.given), path)
        after.add(path, "clock jumps", after.expected.count("\n") - 1)
    return after.verdict("nothing")


def old_schemas(times: int, folder: Path) -> Verdict:
    """A study's file of every schema that was ever written, read and resumed. `times` is not used."""
    expected = (SCHEMAS / "table.csv").read_text("utf-8")
    files = sorted(SCHEMAS.glob("*.db"))
    twice, wrong = 0, []
    for file in files:
        path = folder / file.name
        shutil.copy(file, path)
        read = to_csv(read_results(path))
        again = Watched(Aftermath(folder).given)
        sweep(read_results(path).study, again, path)
        twice += len(again.trained)
        if not read == to_csv(read_results(path)) == expected:
            wrong.append(f"{file.name}: another table")
    return Verdict(len(files), "nothing", twice=twice, wrong=tuple(wrong))


# -- downloads ---------------------------------------------------------------------------------------------------------
class _Breaking(BaseHTTPRequestHandler):
    """Serves a file, and breaks off after `most` bytes of each answer."""

    content = b""
    most = 1
    served = 0

    def do_GET(self) -> None:
        kind = type(self)
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(kind.content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(kind.content) - 1}/{len(kind.content)}")
        self.end_headers()
        part = kind.content[start : start + kind.most]
        kind.served += len(part)
        self.wfile.write(part)
        self.close_connection = True

    def log_message(self, *told: object) -> None:
        """Say nothing."""


def broken_downloads(times: int, folder: Path) -> Verdict:
    """A download that breaks off again and again, and goes on where it was; a byte served twice counts as a cell."""
    size = 1 << 18
    content = random.Random(0).randbytes(size)
    kind = type("Handler", (_Breaking,), {"content": content, "most": -(-size // (times + 1)), "served": 0})
    said: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/file"
        target = folder / "file"
        with patch.dict(os.environ, {"no_proxy": "127.0.0.1"}):
            while not target.exists() and len(said) <= 2 * times:
                try:
                    download(url, target, hashlib.md5(content).hexdigest())
                except DepthlrError as error:
                    said.append(str(error).replace(url, "URL"))
        server.shutdown()
    whole = target.exists() and target.read_bytes() == content
    wrong = () if whole else ("the file is not what was served",)
    return Verdict(len(said), said[-1] if said else "", twice=kind.served - size, wrong=wrong)  # type: ignore[attr-defined]
