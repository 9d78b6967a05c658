"""The report in a browser: it asks for nothing, complains of nothing, answers the pointer, and fits a phone."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.browser.study import STUDY, named, run

from depthlr.present.report import render_report
from depthlr.study import current_environment, open_store, read_results
from depthlr.study.record import Judge, make_record
from depthlr.training.cell import Cell, Outcome

HOSTILE = "<script>alert(1)</script>"


def write(study: Path, folder: Path) -> str:
    """The address of a study's report."""
    path = folder / "report.html"
    path.write_text(render_report(study), encoding="utf-8")
    return path.as_uri()


def test_it_asks_the_network_for_nothing_and_complains_of_nothing(look, trained, tmp_path):
    url = write(trained, tmp_path)
    seen = look(url)
    seen.page.wait_for_selector("#landscape svg")
    seen.page.wait_for_selector("#scaling svg")
    assert seen.requests == [url]
    assert seen.complaints == []


def test_hovering_over_an_optimum_shows_its_rate_and_loss(look, trained, tmp_path):
    page = look(write(trained, tmp_path)).page
    curve = next(c for c in read_results(trained).curves if c.optimum is not None)
    page.locator(f'#landscape circle.best[data-size="{curve.size}"][data-seed="{curve.seed}"]').hover(force=True)
    said = page.locator("#hover").inner_text()
    rate = re.search(r"rate (\S+)", said)
    loss = re.search(r"loss (\S+)", said)
    assert rate is not None
    assert loss is not None
    assert float(rate[1]) == pytest.approx(curve.optimum.rate, rel=5e-3)
    assert float(loss[1]) == pytest.approx(curve.optimum.loss, rel=1e-3)
    page.mouse.move(1, 1)
    assert page.locator("#hover").is_hidden()


def test_a_toggle_hides_a_depth_and_brings_it_back(look, trained, tmp_path):
    page = look(write(trained, tmp_path)).page
    size = read_results(trained).study.model.sizes[1]
    depth = read_results(trained).depths[size]
    drawn = page.locator(f'figure [data-size="{size}"]')
    before = drawn.count()
    assert before > 0
    toggle = page.get_by_role("button", name=f"depth {depth}", exact=True)
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "false"
    assert drawn.count() == 0
    assert page.locator("#landscape .curve").count() > 0
    toggle.click()
    assert drawn.count() == before


def test_a_toggle_hides_a_seed(look, trained, tmp_path):
    page = look(write(trained, tmp_path)).page
    page.get_by_role("button", name="seed 1", exact=True).click()
    assert page.locator('figure [data-seed="1"]').count() == 0
    assert page.locator('figure [data-seed="0"]').count() > 0


def test_the_keyboard_reaches_toggles_and_points(look, trained, tmp_path):
    page = look(write(trained, tmp_path)).page
    page.get_by_role("button", name="seed 0", exact=True).focus()
    page.keyboard.press("Space")
    assert page.locator('figure [data-seed="0"]').count() == 0
    assert page.evaluate("document.activeElement.textContent") == "seed 0"
    page.locator("#landscape svg[tabindex]").focus()
    page.keyboard.press("ArrowRight")
    first = page.locator("#hover").inner_text()
    page.keyboard.press("ArrowRight")
    assert "rate" in first
    assert page.locator("#hover").inner_text() != first


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_it_fits_the_width_of_a_desk_and_of_a_phone(look, trained, tmp_path, width, scheme):
    page = look(write(trained, tmp_path), width, scheme).page
    page.wait_for_selector("#landscape svg")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    picture = tmp_path / f"{width}-{scheme}.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 10_000


def test_triangles_of_one_depth_hide_none_of_another(look, tmp_path):
    path = tmp_path / "x.sqlite"
    with open_store(path, STUDY, depths={2: 3, 4: 5, 8: 9}) as store:
        for size in STUDY.model.sizes:
            for place, loss in ((3, 2.0), (4, 1.0), (5, 2.0), (6, np.inf)):
                outcome = Outcome(np.array([loss], dtype=np.float32), 0.1, diverged=loss == np.inf)
                store.put(make_record(Cell(size, 0, STUDY.search.rates[place]), outcome, Judge("budget")))
    page = look(write(path, tmp_path)).page
    boxes = [
        page.locator(f'#landscape [data-size="{size}"] path.up').bounding_box() for size in sorted(STUDY.model.sizes)
    ]
    assert len({round(box["x"]) for box in boxes}) == 1
    for shallow, deep in pairwise(boxes):
        assert shallow["y"] + shallow["height"] <= deep["y"] + 0.5


def test_the_law_is_drawn_through_the_centre_of_the_fit(look, trained, tmp_path):
    """Its line crosses the fit's, which both begin at the shallowest depth, amid the depths that were run."""
    page = look(write(trained, tmp_path)).page
    law, fit = (points(page.locator(f"#scaling path.{name}").first.get_attribute("d")) for name in ("law", "fit"))
    slopes = [(line[1][1] - line[0][1]) / (line[1][0] - line[0][0]) for line in (law, fit)]
    crossing = law[0][0] + (fit[0][1] - law[0][1]) / (slopes[0] - slopes[1])
    assert law[0][0] < crossing < fit[1][0]


def points(path: str) -> list[tuple[float, float]]:
    return [tuple(map(float, pair.split())) for pair in re.split("[ML]", path) if pair]


def test_what_ran_it_is_shown(look, trained, tmp_path):
    page = look(write(trained, tmp_path)).page
    assert str(current_environment()) in page.locator("#run .facts").inner_text()


def test_a_hostile_name_is_text(look, tmp_path):
    seen = look(write(run(named(HOSTILE), tmp_path / "x.sqlite"), tmp_path))
    seen.page.on("dialog", lambda dialog: seen.complaints.append("an alert"))
    seen.page.wait_for_selector("#landscape svg")
    assert seen.page.locator("h1").inner_text() == HOSTILE
    assert seen.page.title() == HOSTILE
    assert seen.complaints == []


def test_without_scripts_the_answer_is_still_there(look, trained, tmp_path):
    page = look(write(trained, tmp_path), java_script_enabled=False).page
    assert page.locator("#rates tbody tr").count() >= 3
    assert "depthlr sweep" in page.locator("#run pre").inner_text()


def test_it_prints(look, trained, tmp_path):
    page = look(write(trained, tmp_path)).page
    page.wait_for_selector("#landscape svg")
    assert page.pdf().startswith(b"%PDF")
