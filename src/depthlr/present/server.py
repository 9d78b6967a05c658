"""The live page: a study's report on the loopback interface, for whoever knows its address, and only to read.

The page asks once a second for what is new. The server runs on threads of its own and reads the study's file through
its own connections; nothing that a browser does reaches a sweep. Other web sites cannot read it: the address holds a
random token, and a request must name this very host, which a rebound domain name does not.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from depthlr.errors import DepthlrError, kind_and_message
from depthlr.present.findings import findings
from depthlr.present.page import page, policy, update
from depthlr.study.follow import Follower, Snapshot

ADDRESS = "127.0.0.1"
SHARE = 0.1  # of the time that reading may take: a study of 100,000 cells is read less often, so that its sweep goes on
GOODBYE = 2.5  # seconds that a closing server waits for a browser which still lacks the last cells
WATCHED = 3.0  # seconds after which a browser that did not ask has gone
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class PageState:
    """A version of the page as HTML, and the JSON that brings a page there; or why there is none, as text."""

    version: int
    status: HTTPStatus
    page: str
    update: str


class Live:
    """A study as it is now, for several threads; read again when asked, but no more often than SHARE allows."""

    def __init__(self, study: Path | str, metric: str | None = None) -> None:
        self._follower, self._metric = Follower(study), metric
        self._lock = threading.Lock()
        self._now = _state(None, metric)
        self._rest_until = 0.0
        self.asked = 0.0  # when a browser last asked, and the version it then got
        self.seen = 0

    def now(self, *, fresh: bool = False) -> PageState:
        """What is found; `fresh` reads the file however recent the last reading was."""
        with self._lock:
            start = time.monotonic()
            if fresh or start >= self._rest_until:
                snapshot = self._follower.read()
                if snapshot is not None and snapshot.version != self._now.version:
                    self._now = _state(snapshot, self._metric)
                end = time.monotonic()
                self._rest_until = end + (end - start) * (1 / SHARE - 1)
            return self._now


def _state(snapshot: Snapshot | None, metric: str | None) -> PageState:
    version = 0 if snapshot is None else snapshot.version
    try:
        found = None if snapshot is None else findings(snapshot.by(metric))
        return PageState(version, HTTPStatus.OK, page(found, live=True, version=version), update(found, version))
    except Exception as error:  # whatever it is, the sweep goes on, and the browser is told
        says = str(error) if isinstance(error, DepthlrError) else f"({kind_and_message(error)})."
        fault = f"The page cannot be made: {says}\n"
        return PageState(version, HTTPStatus.INTERNAL_SERVER_ERROR, fault, fault)


class Server(ThreadingHTTPServer):
    """Serves one study until `close`; `url` is the whole address, with the token."""

    daemon_threads = True

    def __init__(self, study: Path | str, port: int = 0, metric: str | None = None) -> None:
        self.live = Live(study, metric)
        self.token = secrets.token_urlsafe(24)
        try:
            super().__init__((ADDRESS, port), Handler)
        except (OSError, OverflowError) as error:
            raise DepthlrError(f"Port {port} cannot be used ({error}): leave --port out, or choose another.") from error
        self.url = f"http://{ADDRESS}:{self.server_port}/{self.token}/"
        self.hosts = {f"{name}:{self.server_port}" for name in (ADDRESS, "localhost")}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle of an answer is none of the sweep's business."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def wait_for_last_look(self) -> None:
        """Returns when the browsers that still ask have the latest version, or soon."""
        last = self.live.now(fresh=True).version
        end = time.monotonic() + GOODBYE
        while time.monotonic() < min(end, self.live.asked + WATCHED) and self.live.seen != last:
            time.sleep(0.05)


class Handler(BaseHTTPRequestHandler):
    """GET of the page and of its data; everything else is refused."""

    server: Server
    server_version = "depthlr"
    sys_version = ""
    timeout = 10  # seconds that a client may be silent

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        _, token, *rest = [*place.path.split("/"), ""]
        live = self.server.live
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            self._answer(HTTPStatus.FORBIDDEN, "This page is served to this computer alone.\n")
        elif not hmac.compare_digest(token.encode(), self.server.token.encode()):
            self._answer(HTTPStatus.FORBIDDEN, "Open the whole address that depthlr printed: it holds a token.\n")
        elif rest[:-1] == [""]:
            now = live.now()
            self._answer(now.status, now.page, "text/html")
        elif rest[:-1] == ["data"]:
            now = live.now()
            live.asked = time.monotonic()
            if place.query == f"since={now.version}":
                self._answer(HTTPStatus.NO_CONTENT, "")
            else:
                self._answer(now.status, now.update, "application/json")
            live.seen = now.version
        else:
            self._answer(HTTPStatus.NOT_FOUND, "There is nothing here.\n")

    def _answer(self, status: HTTPStatus, text: str, kind: str = "text/plain") -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", f"{policy(live=True)}; frame-ancestors 'none'")
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", f"{kind if status is HTTPStatus.OK else 'text/plain'}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the terminal belongs to the sweep."""


@contextmanager
def serving(study: Path | str, port: int = 0, metric: str | None = None) -> Iterator[str]:
    """Serve a study's live page for as long as the block runs.

    Args:
        study: The study's file, which need not exist yet.
        port: Where to listen; any free port if 0.
        metric: A stored metric, as `Results.by` takes it; the study's own if None.

    Yields:
        The address of the page.
    """
    server = Server(study, port, metric)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    with closing(server):
        try:
            yield server.url
        finally:
            server.wait_for_last_look()  # an interrupted sweep has last cells, too
