"""A study as TOML, read strictly and written so that it reads back the same."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from depthlr import check
from depthlr.errors import DepthlrError, did_you_mean
from depthlr.study.description import Data, Models, Search, Study
from depthlr.training.training import Training

MOST_SEEDS = 1000
TABLES: dict[str, type] = {"model": Models, "data": Data, "training": Training, "search": Search}


def read_study(path: Path | str) -> Study:
    """The study in a TOML file; a study without a name takes the file's."""
    place = Path(path)
    try:
        text = place.read_text(encoding="utf-8-sig")  # a byte-order mark is no part of it
    except (OSError, UnicodeDecodeError) as error:
        raise DepthlrError(f"{path} cannot be read ({error}): name a study's TOML file.") from error
    return parse_study(text, name=place.stem, source=str(path))


def parse_study(text: str, *, name: str = "study", source: str = "The study") -> Study:
    """The study in a TOML text; `name` is what it is called unless it says so itself."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # the decoder's own, and those of numbers and nesting without end
        raise DepthlrError(f"{source} is no TOML ({error}): correct that line.") from error
    return study_from_dict({"name": name, **tables})


def study_from_dict(tables: Mapping[str, Any]) -> Study:
    """The study in plain tables; an entry that is not known is refused, with the nearest that is."""
    _known("The study", tables, ["name", *TABLES])
    parts: dict[str, Any] = {}
    for key, kind in TABLES.items():
        table = tables.get(key, {})
        if not isinstance(table, Mapping):
            raise DepthlrError(f"{key} is {table!r}: write it as a table, [{key}], with its entries below.")
        _known(f"[{key}]", table, [field.name for field in fields(kind)])
        for field in fields(kind):
            if field.default is MISSING and field.name not in table:
                raise DepthlrError(f"[{key}] lacks {field.name}: add a line {field.name} = ...")
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
        if key == "search" and isinstance(seeds := values.get("seeds"), int) and not isinstance(seeds, bool):
            check.count("search.seeds", seeds, most=MOST_SEEDS)
            values["seeds"] = tuple(range(seeds))  # `seeds = 3` for [0, 1, 2]
        parts[key] = kind(**values)
    return Study(tables.get("name", "study"), **parts)


def to_toml(study: Study) -> str:
    """The study as TOML, every entry written out."""
    tables = study.to_dict()
    lines = [f"name = {_value(tables.pop('name'))}"]
    for key, entries in tables.items():
        lines += ["", f"[{key}]", *(f"{entry} = {_value(value)}" for entry, value in entries.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """JSON's text, lists and numbers are TOML's too, but for a float's exponent without a point, which both allow."""
    return json.dumps(value, ensure_ascii=False)


def _known(where: str, entries: Mapping[str, Any], known: list[str]) -> None:
    for entry in entries:
        if entry not in known:
            raise DepthlrError(
                f"{where} has an unknown entry {entry!r}{did_you_mean(str(entry), known)}: it takes {', '.join(known)}."
            )
