"""The pictures of docs/report.md: python -m tests.browser.pictures STUDY.sqlite docs/images"""

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


def main(study: str, folder: str) -> None:
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as driver:
        page_file = Path(temporary) / "report.html"
        page_file.write_text(render_report(study), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        for name, (width, height, scheme, pixels) in PICTURES.items():
            view = {"width": width, "height": height}
            page = browser.new_page(viewport=view, color_scheme=scheme, device_scale_factor=pixels)
            page.goto(page_file.as_uri())
            page.wait_for_selector("#landscape svg")
            page.screenshot(path=Path(folder) / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
