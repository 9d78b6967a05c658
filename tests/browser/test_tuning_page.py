"""The page of `depthlr tune` in a browser: it asks for nothing, complains of nothing, and fits a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.present.test_tuning import CARRIED, CHECKED, TUNING, replace

from depthlr.present.tuning import tuning_page
from depthlr.study.tune import Tuning

GIVEN = replace(TUNING, source=None)
FAR = replace(CHECKED, carried=replace(CARRIED, rate=1e-6, low=1e-7, high=1e-5))


def write(tuning: Tuning, folder: Path) -> str:
    path = folder / "tuning.html"
    path.write_text(tuning_page(tuning), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("tuning", [TUNING, CHECKED, GIVEN, FAR], ids=["tuned", "checked", "given", "far"])
@pytest.mark.parametrize("width", [1280, 360])
def test_it_asks_for_nothing_complains_of_nothing_and_fits(look, tmp_path, tuning: Tuning, width: int) -> None:
    url = write(tuning, tmp_path)
    seen = look(url, width=width)
    assert seen.requests == [url]
    assert seen.complaints == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("tuning", [CHECKED, FAR], ids=["checked", "far"])
def test_both_rates_are_marked_within_the_plot(look, tmp_path, tuning: Tuning) -> None:
    page = look(write(tuning, tmp_path)).page
    plot = page.locator("#landscape svg").first.bounding_box()
    for mark in ("path.law", "path.fit", "rect.band"):
        box = page.locator(f"#landscape {mark}").bounding_box()
        assert plot["x"] < box["x"] < plot["x"] + plot["width"]
    assert {"tuned", "carried"} <= set(page.locator("#landscape text.label").all_text_contents())


def test_a_given_rate_has_no_plot(look, tmp_path) -> None:
    page = look(write(GIVEN, tmp_path)).page
    assert page.get_by_text("Loss of the source against rate").is_hidden()
