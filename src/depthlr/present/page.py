"""One self-contained page: words, numbers, style and script in a single HTML text that asks the network for nothing.

What users wrote reaches the page in three ways only: escaped as HTML (sections.py), as JSON in which no character can
end a script element (below), and as text that the script sets as text. The policy allows the one script and the one
style by their digest, so that even a slip in the escaping could not run anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from depthlr.law.power import LAW_EXPONENT
from depthlr.present.findings import Findings
from depthlr.present.plot_data import plot_data
from depthlr.present.sections import sections, title_of

NOTHING: dict[str, Any] = {
    "vary": "", "over": "size", "loss": "loss", "law": LAW_EXPONENT, "sizes": [], "seeds": [], "rates": [],
    "curves": [], "rows": [], "fits": {"depth": None, "size": None},
}  # fmt: skip
UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}  # inside JSON's strings, the only place they occur


def page(found: Findings | None, *, live: bool = False, version: int = 0) -> str:
    """The whole page; a live one asks its own server for what is new. `found` is None before the study has a file."""
    words = sections(found, live=live)
    numbers = {"version": version, "plot": NOTHING if found is None else plot_data(found)}
    return Template(_asset("page.html")).substitute(
        words,
        title=escape(title_of(found)),
        live="true" if live else "false",
        policy=escape(policy(live=live)),
        style=_style(),
        script=_script(),
        data=script_json(numbers),
    )


def update(found: Findings | None, version: int) -> str:
    """What changes on a live page, as JSON."""
    plot = NOTHING if found is None else plot_data(found)
    words = sections(found, live=True)
    return script_json({"version": version, "title": title_of(found), "sections": words, "plot": plot})


def policy(*, live: bool = False) -> str:
    """The content-security policy: our own script and style, and nothing else."""
    own = {"script-src": _script(), "style-src": _style()}
    rules = ["default-src 'none'", *(f"{name} '{_digest(text)}'" for name, text in own.items()), "img-src data:"]
    return "; ".join([*rules, *(["connect-src 'self'"] if live else []), "base-uri 'none'", "form-action 'none'"])


def script_json(value: Any) -> str:
    """JSON that can stand inside a script element, whatever its strings say."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False).translate(UNSAFE)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return files("depthlr.present").joinpath(name).read_text(encoding="utf-8")


def _style() -> str:
    return _asset("page.css")


def _script() -> str:
    return f'(() => {{\n"use strict";\n{_asset("plot.js")}\n{_asset("page.js")}}})();\n'
