"""The pictures of docs/report.md and docs/tune.md.

python -m tests.browser.pictures STUDY.sqlite docs/images            the report of a sweep
python -m tests.browser.pictures recipe.html docs/images/tune.png    a page as `depthlr tune --report` wrote it
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.browser.conftest import FLAGS, chromium_path

from depthlr.present.report import render_report

PICTURES = {  # width, height, colour scheme, pixels a point
    "report-desktop": (1280, 1720, "light", 1),
    "report-dark": (1280, 1720, "dark", 1),
    "report-phone": (390, 1180, "light", 1.5),
}


TUNE = (1280, 1470, "light", 0.75)


def main(source: str, target: str) -> None:
    page_file = Path(source).resolve()
    pictures = {Path(target): TUNE}
    with tempfile.TemporaryDirectory() as temporary:
        if page_file.suffix != ".html":
            pictures = {Path(target) / f"{name}.png": view for name, view in PICTURES.items()}
            page_file = Path(temporary) / "report.html"
            page_file.write_text(render_report(source), encoding="utf-8")
        photograph(page_file, pictures)


def photograph(page_file: Path, pictures: dict[Path, tuple[int, int, str, float]]) -> None:
    """Take pictures of a page in headless Chromium."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        for path, (width, height, scheme, pixels) in pictures.items():
            view = {"width": width, "height": height}
            page = browser.new_page(viewport=view, color_scheme=scheme, device_scale_factor=pixels)
            page.goto(page_file.as_uri())
            page.wait_for_selector("#landscape svg")
            page.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
