"""The commands of experiments/: each is listed, and those that the docs name exist."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from experiments.speed.__main__ import NAMES, main, summary

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_benchmark_is_listed_with_its_summary(capsys) -> None:
    files = (ROOT / "experiments" / "speed").glob("[!_]*.py")
    assert sorted(NAMES) == sorted(file.stem for file in files if "\ndef main()" in file.read_text("utf-8"))
    main([])
    listed = capsys.readouterr().out
    for name in NAMES:
        assert summary(name)
        assert f"{name:<13}{summary(name)}\n" in listed


def test_a_benchmark_gets_its_options(monkeypatch) -> None:
    seen = []
    monkeypatch.setattr("experiments.speed.search.main", lambda: seen.extend(sys.argv))
    monkeypatch.setattr("sys.argv", [])
    main(["search", "50"])
    assert seen == ["python -m experiments.speed search", "50"]


def test_an_unknown_benchmark_is_one_sentence() -> None:
    with pytest.raises(SystemExit, match="There is no benchmark 'nothing': choose one of bookkeeping, "):
        main(["nothing"])


def test_the_commands_that_the_docs_name_exist() -> None:
    named = set()
    for page in PAGES:
        text = page.read_text("utf-8")
        assert "benchmarks/" not in text
        named |= {tuple(words.split()) for words in re.findall(r"-m\s+(experiments\.\w+(?:\s+[a-z]+\b)?)", text)}
    assert ("experiments.speed", "exponents") in named
    for module, *words in named:
        import_module(module)
        assert module != "experiments.speed" or set(words) <= set(NAMES), words
