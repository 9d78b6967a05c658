"""The documentation site builds without a warning, describes every public name, and loads nothing from elsewhere."""

from __future__ import annotations

import logging
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

import depthlr

config = pytest.importorskip("mkdocs.config", reason="the dev extra holds mkdocs")
ROOT = Path(__file__).parents[1]
LOADS = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}  # what a browser fetches


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site. A broken link, a page without a place or an unknown name is a warning, and ends the build."""
    from mkdocs.commands.build import build

    folder = tmp_path_factory.mktemp("site")
    settings = config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    logging.getLogger("mkdocs").addHandler(logging.NullHandler())
    build(settings)
    return folder


class Loaded(HTMLParser):
    """The addresses that a page loads by itself, and the ids of its elements."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: set[str] = set()
        self.feed(page.read_text("utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        held = dict(attributes)
        self.addresses += [held.get(LOADS[tag]) or ""] if tag in LOADS else []
        self.ids.add(held.get("id") or "")


def test_every_page_is_built_and_readme_is_the_front(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    pages |= {Path(name) for name in ("index.html", "ARCHITECTURE.html", "CHANGELOG.html", "CONTRIBUTING.html")}
    assert all((site / page).is_file() for page in pages)
    front = (site / "index.html").read_text("utf-8")
    headings = re.findall(r"^## (.*)$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert headings
    assert all(f"{heading}<a" in front for heading in headings)


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        for address in Loaded(page).addresses:
            assert not re.match(r"(\w+:)?//", address), f"{page.name} loads {address}"
            assert page.name == "404.html" or (page.parent / address.partition("?")[0]).exists(), address
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )[\"']?(\w+:)?//", sheet.read_text("utf-8")), sheet


def test_every_public_name_is_described(site: Path) -> None:
    ids = Loaded(site / "api" / "depthlr.html").ids
    assert {f"depthlr.{name}" for name in depthlr.__all__ if name != "rules"} <= ids
    rules = Loaded(site / "api" / "rules.html").ids
    assert {f"depthlr.transfer.rules.{name}" for name in depthlr.rules.__all__} <= rules
