"""The live page's server: it answers this computer alone, only to read, and never stands in the way of a sweep."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import threading
from functools import partial
from urllib.parse import urlsplit

import numpy as np
import pytest

from depthlr.cli.report import serve_command
from depthlr.errors import DepthlrError
from depthlr.present.server import Live, serving
from depthlr.study import Models, Search, Study, Training, open_store, read_results
from depthlr.study.record import Judge, make_record
from depthlr.training.cell import Cell, Outcome

STUDY = Study(
    "live",
    Models("mlp?width=8", "layers", (2, 4)),
    Training(steps=2),
    search=Search("grid", points=30, seeds=(0, 1)),
)
CELLS = [Cell(size, seed, rate) for size in (2, 4) for seed in (0, 1) for rate in STUDY.search.rates]


def finished(cell: Cell):
    return make_record(cell, Outcome(np.array([1 + cell.rate], dtype=np.float32), 0.1, False), Judge("budget"))


class Site:
    """Requests to a served study; the right host unless told otherwise."""

    def __init__(self, url: str) -> None:
        self.place = urlsplit(url)

    def ask(self, path: str, method: str = "GET", host: str | None = None):
        connection = http.client.HTTPConnection("127.0.0.1", self.place.port, timeout=10)
        connection.request(method, path, headers={"Host": host or self.place.netloc})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer, text

    def data(self, since: int = 0):
        answer, text = self.ask(f"{self.place.path}data?since={since}")
        return json.loads(text) if answer.status == 200 else answer.status


@pytest.fixture
def path(tmp_path):
    return tmp_path / "live.sqlite"


@pytest.fixture
def site(path):
    with serving(path) as url:
        yield Site(url)


def test_it_listens_on_the_loopback_interface_alone(site):
    assert site.place.hostname == "127.0.0.1"
    assert len(site.place.path) > 24  # a token nobody guesses


def test_without_the_token_there_is_nothing(site, path):
    for wrong in ("/", "/data", "/favicon.ico", "/" + "x" * 32 + "/", site.place.path[:-2] + "/", "/%00/", "//" + "x"):
        answer, text = site.ask(wrong)
        assert answer.status == 403, wrong
        assert site.place.path.strip("/") not in text


def test_a_rebound_name_is_refused(site):
    port = site.place.port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.1.x:{port}"):
        assert site.ask(site.place.path, host=host)[0].status == 403, host
    assert site.ask(site.place.path, host=f"localhost:{port}")[0].status == 200


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"])
def test_only_reading_is_allowed(site, method):
    assert site.ask(site.place.path, method)[0].status == 501


def test_every_answer_carries_the_policy_and_is_never_kept(site):
    for place in (site.place.path, f"{site.place.path}data?since=x", "/", f"{site.place.path}../../etc/passwd"):
        answer, _ = site.ask(place)
        rules = answer.headers["Content-Security-Policy"]
        assert rules.startswith("default-src 'none'; script-src 'sha256-")
        assert "connect-src 'self'" in rules
        assert "frame-ancestors 'none'" in rules
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_study_that_is_not_there_yet_is_waited_for(site, path):
    assert "Waiting" in site.ask(site.place.path)[1]
    assert site.data(since=0) == 204
    with open_store(path, STUDY) as store:
        store.put(finished(CELLS[0]))
        now = until(partial(site.data, 0))
    assert now["title"] == "live"
    assert len(now["plot"]["curves"]) == 1
    assert now["sections"]["status"].startswith("1 cell,")


def test_only_what_changed_is_sent(site, path):
    with open_store(path, STUDY) as store:
        version = 0
        for count, cell in enumerate(CELLS[:5], 1):
            store.put(finished(cell))
            now = until(partial(site.data, version))
            assert sum(len(curve[2]) for curve in now["plot"]["curves"]) == count
            version = now["version"]
            assert site.data(version) == 204


def until(ask):
    """What is answered once there is something new: a large study is not read at every request."""
    while (answer := ask()) == 204:
        pass
    return answer


def test_a_file_that_is_no_study_harms_nothing(site, path):
    path.write_bytes(b"not a database" * 100)
    assert "Waiting" in site.ask(site.place.path)[1]
    assert path.read_bytes() == b"not a database" * 100


def test_a_page_that_cannot_be_made_is_said_and_the_sweep_goes_on(path, monkeypatch):
    def beyond(snapshot):
        raise DepthlrError("A rate lies beyond what a float holds.")

    monkeypatch.setattr("depthlr.present.server.findings", beyond)
    with serving(path) as url, open_store(path, STUDY) as store:
        store.put(finished(CELLS[0]))
        site = Site(url)
        for place in ("", "data?since=0"):
            answer, text = site.ask(site.place.path + place)
            assert (answer.status, text) == (
                500,
                "The page cannot be made: A rate lies beyond what a float holds.\n",
            )
        store.put(finished(CELLS[1]))
    assert len(read_results(path).records) == 2


def test_readers_do_not_stop_the_writer(site, path):
    """A hundred cells are kept while four readers ask without pause; all are kept and all are seen."""
    stop = threading.Event()
    faults = []

    def read():
        while not stop.is_set():
            answer, _ = site.ask(f"{site.place.path}data?since=-1")
            if answer.status != 200:
                faults.append(answer.status)

    readers = [threading.Thread(target=read) for _ in range(4)]
    with open_store(path, STUDY) as store:
        store.put(finished(CELLS[0]))
        for reader in readers:
            reader.start()
        for cell in CELLS[1:100]:
            store.put(finished(cell))
        stop.set()
        for reader in readers:
            reader.join()
    assert faults == []
    assert len(read_results(path).records) == 100
    last = until(lambda: site.data(-1) if live_cells(site) == 100 else 204)
    assert last["sections"]["status"].startswith("100 cells,")


def live_cells(site: Site) -> int:
    return sum(len(curve[2]) for curve in site.data(-1)["plot"]["curves"])


def test_a_browser_that_hangs_up_is_not_heard_of(site, capfd):
    for _ in range(3):
        connection = http.client.HTTPConnection("127.0.0.1", site.place.port, timeout=10)
        connection.connect()
        connection.sock.sendall(b"GET / HT")
        connection.close()
    assert site.ask(site.place.path)[0].status == 200
    assert capfd.readouterr().err == ""


def test_the_page_itself_asks_only_its_own_server(site, path):
    _, text = site.ask(site.place.path)
    assert 'data-live="true"' in text
    assert 'href="http' not in text
    assert 'src="' not in text


def test_a_taken_port_is_said_before_anything_runs(site, path):
    with pytest.raises(DepthlrError, match="cannot be used"), serving(path, site.place.port):
        pass
    with pytest.raises(DepthlrError, match="cannot be used"), serving(path, 70000):
        pass


def test_every_server_has_its_own_token(path):
    with serving(path) as first, serving(path) as second:
        assert urlsplit(first).path != urlsplit(second).path


def test_reading_takes_a_share_of_the_time_and_no_more(path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("depthlr.present.server.time.monotonic", lambda: clock[0])
    live = Live(path)
    reads = []

    def slow():
        reads.append(clock[0])
        clock[0] += 1.0

    monkeypatch.setattr(live._follower, "read", slow)
    while clock[0] < 100:
        live.now()
        clock[0] += 0.25
    assert len(reads) == pytest.approx(10, abs=1)


def test_the_verb_prints_its_address_and_ends_with_ctrl_c(path):
    with open_store(path, STUDY) as store:
        store.put(finished(CELLS[0]))
    code = "import typer; from depthlr.cli.report import serve_command; typer.run(serve_command)"
    command = [sys.executable, "-c", code, str(path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        text = "".join(iter(process.stdout.readline, "}\n")) + "}"
        assert Site(json.loads(text)["url"]).data()["title"] == "live"
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # one that did not hear it must not be waited for
    assert process.returncode == 0, err
    assert out == ""
    assert "ended" in err


def test_the_verb_refuses_a_file_that_is_no_study(tmp_path):
    (tmp_path / "text.sqlite").write_text("no study")
    with pytest.raises(DepthlrError, match="not a study"):
        serve_command(str(tmp_path / "text.sqlite"))
    with pytest.raises(DepthlrError, match="no folder"):
        serve_command(str(tmp_path / "nowhere" / "x.sqlite"))


def test_a_sweep_that_ends_lets_the_last_look_happen_and_waits_for_nobody_else(path):
    with serving(path):
        pass  # nobody ever looked
    with open_store(path, STUDY) as store:
        looks = []
        with serving(path) as url:
            site = Site(url)
            known = site.data()["version"]
            reader = threading.Thread(target=lambda: looks.append(until(partial(site.data, known))))
            store.put(finished(CELLS[0]))
            reader.start()
        reader.join()
    assert looks[0]["sections"]["status"].startswith("1 cell,")
