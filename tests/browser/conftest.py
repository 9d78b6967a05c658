"""A headless Chromium, and a small real study: trained, not made up. Without a browser these tests fail, never skip.

Run by `make test-browser`, with Debian's chromium; CHROMIUM names another.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.browser.study import STUDY, run

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@dataclass
class Watched:
    """A page, what it asked the network for, and what it complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def chromium_path() -> str:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert path, "There is no chromium: run apt-get install chromium, or name one with CHROMIUM=/path."
    return path


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium_path(), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def look(chromium: Browser) -> Iterator[Callable[..., Watched]]:
    """Opens an address at a width and colour scheme, and watches it."""
    contexts = []

    def look(url: str, width: int = 1280, scheme: str = "light", **options: object) -> Watched:
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        contexts.append(context)
        watched = Watched(context.new_page())
        watched.page.on("request", lambda request: watched.requests.append(request.url))
        watched.page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        watched.page.on("console", lambda said: watched.complaints.append(f"{said.type}: {said.text}"))
        watched.page.goto(url)
        return watched

    yield look
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a study that was really trained, in a few seconds."""
    return run(STUDY, tmp_path_factory.mktemp("study") / "digits.sqlite")
