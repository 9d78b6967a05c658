"""The live page in a browser: it follows a sweep, outlives its pauses, and says when the server is gone."""

from __future__ import annotations

import time

import numpy as np
from tests.browser.study import STUDY

from depthlr.present.server import serving
from depthlr.study import open_store
from depthlr.study.record import Judge, make_record
from depthlr.training.cell import Cell, Outcome

SOON = 2000  # milliseconds in which a finished cell must be seen


def finished(size: int, place: int, loss: float):
    cell = Cell(size, 0, STUDY.search.rates[place])
    return make_record(cell, Outcome(np.array([loss], dtype=np.float32), 0.1, False), Judge("budget"))


def test_a_new_cell_is_seen_within_two_seconds(look, tmp_path):
    path = tmp_path / "live.sqlite"
    with serving(path) as url:
        seen = look(url)
        seen.page.get_by_text("Waiting for the study").wait_for()
        with open_store(path, STUDY, depths={2: 2, 4: 4, 8: 8}) as store:
            for count, place in enumerate((3, 4, 5), 1):
                store.put(finished(2, place, 1.0 + 0.1 * count))
                start = time.monotonic()
                seen.page.get_by_text(f"{count} cell").wait_for(timeout=SOON)
                assert time.monotonic() - start < SOON / 1000
            assert seen.page.locator("#landscape .curve").count() > 0
            assert seen.page.locator("h1").inner_text() == STUDY.name
        assert seen.complaints == []
        assert all(request.startswith(url) for request in seen.requests)


def test_toggles_survive_an_update(look, tmp_path):
    path = tmp_path / "live.sqlite"
    with open_store(path, STUDY, depths={2: 2, 4: 4, 8: 8}) as store, serving(path) as url:
        store.put(finished(2, 3, 1.0))
        store.put(finished(4, 3, 1.0))
        page = look(url).page
        page.get_by_role("button", name="depth 4", exact=True).click()
        store.put(finished(4, 4, 0.9))
        page.get_by_text("3 cells,").wait_for(timeout=SOON)
        assert page.locator('#landscape [data-size="4"]').count() == 0
        assert page.locator('#landscape [data-size="2"]').count() > 0


def test_a_browser_may_come_and_go(look, tmp_path):
    path = tmp_path / "live.sqlite"
    with open_store(path, STUDY) as store, serving(path) as url:
        first = look(url)
        first.page.close()
        store.put(finished(2, 3, 1.0))
        look(url).page.get_by_text("1 cell,").wait_for(timeout=SOON)


def test_the_page_says_when_the_server_is_gone(look, tmp_path):
    path = tmp_path / "live.sqlite"
    with open_store(path, STUDY) as store:
        with serving(path) as url:
            page = look(url).page
            store.put(finished(2, 3, 1.0))
            page.get_by_text("1 cell,").wait_for(timeout=SOON)
        page.get_by_text("not connected").wait_for(timeout=2 * SOON)
        assert page.locator("#rates table").count() == 1  # what was seen stays
