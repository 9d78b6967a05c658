"""What a study is: models of several sizes, data, a training budget and the rates to search, and its form in TOML."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from depthlr import check
from depthlr.data.sources import parse_name, source_of
from depthlr.errors import DepthlrError, did_you_mean
from depthlr.law.curve import log_grid
from depthlr.models.spec import ModelSpec, parse_spec
from depthlr.models.zoo import ZOO
from depthlr.python_name import is_python_name
from depthlr.training.command import template_fields
from depthlr.training.training import COMMAND_ENTRIES, NO_LENGTH, Training, check_entries, entry, set_entries

OUR_NAMES = frozenset({"depth", "seed", "seeds", "cells", "fit"})  # of columns and keys beside the argument's
SEARCHES = ("grid", "adaptive")
NOTHING_TO_TRAIN = (
    "The study does not say how a cell is trained: give model.spec and training.steps, or training.command; or train "
    "its cells elsewhere with depthlr ask and tell."
)
MOST_SIZE = 1_000_000  # layers or blocks
UNCOUNTED = ("name:", "data.folder:", "data.loaders:")  # how `difference` begins on entries that change no result
MOST_LOADERS = 256  # processes
MOST_POINTS = 10_000  # of a grid: finer than any training can tell apart
DIGITS = 9  # a rate's significant digits: fewer than a float's, so that every machine makes the same grid


@dataclass(frozen=True)
class Models:
    """The model, the argument that makes it deeper (layers or blocks), and the values of that argument.

    If another program trains the cells, the model may be left out; then no effective depth is known.
    """

    spec: str | None = entry(None, check.text)
    vary: str | None = entry(None, check.text)
    sizes: tuple[int, ...] = entry((), partial(check.counts, least=1, most=MOST_SIZE))

    def __post_init__(self) -> None:
        check_entries(self, "model")
        if list(self.sizes) != sorted(self.sizes):
            raise DepthlrError(f"model.sizes is {list(self.sizes)}: write the sizes from small to large.")
        if self.spec is not None:
            self._check_spec(self.spec)
        elif self.vary is not None and not self.vary.isidentifier():
            raise DepthlrError(f"model.vary is {self.vary!r}: write one word, such as layers.")

    def _check_spec(self, text: str) -> None:
        spec, vary = parse_spec(text), self.vary
        if vary is None:
            raise DepthlrError("[model] lacks vary: add a line vary = ...")
        known = list(ZOO[spec.name].defaults) if spec.family == "zoo" else None
        if not vary.isidentifier() or (known is not None and vary not in known):
            offer = [name for name in ("layers", "blocks") if known is None or name in known]
            raise DepthlrError(f"model.vary is {vary!r}, no argument of {spec.name}: write {' or '.join(offer)}.")
        if vary in spec.arguments:
            raise DepthlrError(f"model.spec sets {vary}, which model.vary varies: leave {vary} out of {self.spec}.")
        set_entries(self, spec=str(spec))

    @property
    def title(self) -> str:
        """The model as headings name it."""
        return "your own model" if self.spec is None else self.spec

    @property
    def size_name(self) -> str:
        """The argument as tables and keys name it, never as they name something else: `depth (argument)`."""
        if self.vary is None:
            return "size"
        return f"{self.vary} (argument)" if self.vary in OUR_NAMES else self.vary

    def spec_at(self, size: int) -> ModelSpec:
        """The model of one size.

        Args:
            size: The value of the argument that is varied.
        """
        if self.spec is None or self.vary is None:
            raise DepthlrError(NOTHING_TO_TRAIN)
        return parse_spec(self.spec).with_arguments(**{self.vary: size})


def _data_set(name: str, value: Any) -> str:
    source_of(parse_name(check.text(name, value))[0])
    return str(value)


def _held_out(name: str, value: Any) -> float | int | str:
    if isinstance(value, str):
        return check.text(name, value)
    return check.count(name, value) if isinstance(value, int) else check.share(name, value)


@dataclass(frozen=True)
class Data:
    """A data set and its held-out part.

    Args:
        name: The name of the data set.
        folder: Where it lies.
        limit: Train on its first examples only, this many.
        validation: What runs are evaluated on: a share of the data set (0.1), a number of its examples (5000), one of
            its splits ("test"), or the user's own as package.module:callable.
        loaders: Processes that read batches ahead on a GPU machine, for data larger than memory. They change no result,
            so they are no part of a study's digest.
    """

    name: str = entry("digits", _data_set)
    folder: str | None = entry(None, check.text)
    limit: int | None = entry(None, check.count)
    validation: float | int | str | None = entry(None, _held_out)
    loaders: int | None = entry(None, partial(check.count, most=MOST_LOADERS))

    def __post_init__(self) -> None:
        check_entries(self, "data")


@dataclass(frozen=True)
class Search:
    """The grid of rates and the seeds, and whether every rate is run or only as many as it takes."""

    kind: str = entry("adaptive", partial(check.one_of, known=SEARCHES))
    low: float = entry(1e-4, check.rate)
    high: float = entry(10.0, check.rate)
    points: int = entry(80, partial(check.count, least=3, most=MOST_POINTS))
    seeds: tuple[int, ...] = entry((0, 1, 2), partial(check.counts, least=0, most=check.MOST_SEED))

    def __post_init__(self) -> None:
        check_entries(self, "search")
        between = f"between {self.low:g} and {self.high:g}"
        if self.low >= self.high:
            raise DepthlrError(f"search has no rates {between}: search.low must be below search.high.")
        if len(set(self.rates)) < self.points:
            raise DepthlrError(f"search has {self.points} points {between}, so close that some are equal: take fewer.")

    @cached_property
    def rates(self) -> tuple[float, ...]:
        """The grid, low rate first."""
        inner = log_grid(self.low, self.high, self.points)[1:-1]
        return (self.low, *(float(f"{rate:.{DIGITS}g}") for rate in inner), self.high)

    @property
    def spacing(self) -> float:
        """The grid's step in decades."""
        return (math.log10(self.high) - math.log10(self.low)) / (self.points - 1)


@dataclass(frozen=True)
class Study:
    """The description. Equal `digest` means equal results on equal data; name, folder and loaders do not count."""

    name: str
    model: Models
    training: Training
    data: Data = field(default_factory=Data)
    search: Search = field(default_factory=Search)

    def __post_init__(self) -> None:
        check.text("name", self.name)
        training = self.training
        if self.model.spec is None and training.has_length:
            raise DepthlrError("[model] lacks spec: add a line spec = ...")
        if self.model.spec is not None and training.command is None and not training.has_length:
            raise DepthlrError(NO_LENGTH)
        seeds = len(self.search.seeds)
        used = () if training.command is None else template_fields("training.command", training.command)
        if used and "seed" not in used and seeds > 1:
            raise DepthlrError(
                f"training.command has no {{seed}}, so {seeds} seeds would train the same: add it, or set "
                "search.seeds = 1."
            )
        if self.data.validation is None and self.training.metric == "validation":
            raise DepthlrError("training.metric is validation: say what to evaluate on, such as data.validation = 0.1.")
        if self.data.validation is None and self.training.evaluate_at is not None:
            raise DepthlrError("training.evaluate_at is set: say what to evaluate on, such as data.validation = 0.1.")

    def to_dict(self) -> dict[str, Any]:
        """Plain tables, as TOML and JSON have them; entries that are not set are left out."""
        tables = {key: _table(getattr(self, key)) for key in ("model", "data", "training", "search")}
        return {"name": self.name, **tables}

    @property
    def named_code(self) -> tuple[str, ...]:
        """What a sweep of this study runs that is not depthlr's: `package.module:callable`s, and a command."""
        found = [] if self.training.command is None else [self.training.command]
        for table in self.to_dict().values():
            for value in table.values() if isinstance(table, dict) else ():
                texts = value if isinstance(value, list | tuple) else [value]
                found += [text for text in texts if isinstance(text, str) and is_python_name(text.partition("?")[0])]
        return tuple(dict.fromkeys(found))

    @property
    def digest(self) -> str:
        """sha256 of all that determines the results."""
        counted = self.to_dict()
        del counted["name"]
        counted["data"].pop("folder", None)
        counted["data"].pop("loaders", None)
        return hashlib.sha256(json.dumps(counted, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def difference(old: Study, new: Study) -> list[str]:
    """The entries that differ between two studies, one per line: `training.batch: 128 -> 64`.

    Args:
        old: A study.
        new: Another study.
    """
    before, after = _flat(old), _flat(new)
    return [
        f"{key}: {before.get(key, 'not set')} -> {after.get(key, 'not set')}"
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    ]


def _table(part: Any) -> dict[str, Any]:
    names: Iterable[str] = (entry.name for entry in fields(part))
    if isinstance(part, Training) and not part.has_length:
        names = COMMAND_ENTRIES
    given = {name: getattr(part, name) for name in names if getattr(part, name) is not None}
    return given | {name: list(value) for name, value in given.items() if isinstance(value, tuple)}


def _flat(study: Study) -> dict[str, Any]:
    tables = study.to_dict()
    name = {"name": tables.pop("name")}
    return name | {f"{table}.{key}": value for table, entries in tables.items() for key, value in entries.items()}


MOST_SEEDS = 1000
STUDY_TABLES: dict[str, type] = {"model": Models, "data": Data, "training": Training, "search": Search}


def read_study(path: Path | str) -> Study:
    """Read a study from a TOML file.

    Args:
        path: The file. A study without a name takes the file's name.
    """
    place = Path(path)
    try:
        text = place.read_text(encoding="utf-8-sig")  # a byte-order mark is no part of it
    except (OSError, UnicodeDecodeError) as error:
        raise DepthlrError(f"{path} cannot be read ({error}): name a study's TOML file.") from error
    return parse_study(text, name=place.stem, source=str(path))


def parse_study(text: str, *, name: str = "study", source: str = "The study") -> Study:
    """Read a study from TOML text.

    Args:
        text: The text.
        name: The study's name, if the text has none.
        source: What errors call the text.
    """
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # the decoder's own, and those of numbers and nesting without end
        raise DepthlrError(f"{source} is no TOML ({error}): correct that line.") from error
    return study_from_dict({"name": name, **tables})


def study_from_dict(tables: Mapping[str, Any]) -> Study:
    """Make a study from plain tables. An unknown entry is refused, and the error names the nearest known one.

    Args:
        tables: The tables of the study file.
    """
    _known("The study", tables, ["name", *STUDY_TABLES])
    parts: dict[str, Any] = {}
    for key, kind in STUDY_TABLES.items():
        table = tables.get(key, {})
        if not isinstance(table, Mapping):
            raise DepthlrError(f"{key} is {table!r}: write it as a table, [{key}], with its entries below.")
        _known(f"[{key}]", table, [entry.name for entry in fields(kind)])
        if kind is Models and "sizes" not in table:
            raise DepthlrError("[model] lacks sizes: add a line sizes = ...")
        values = dict(table) | {name: tuple(value) for name, value in table.items() if isinstance(value, list)}
        if key == "search" and isinstance(seeds := values.get("seeds"), int) and not isinstance(seeds, bool):
            check.count("search.seeds", seeds, most=MOST_SEEDS)
            values["seeds"] = tuple(range(seeds))  # `seeds = 3` for [0, 1, 2]
        parts[key] = kind(**values)
    return Study(tables.get("name", "study"), **parts)


def to_toml(study: Study) -> str:
    """The study as TOML, with every entry written out that counts: a command has its own data.

    Args:
        study: The study.
    """
    tables = study.to_dict()
    if study.training.command is not None and study.data == Data():
        del tables["data"]
    lines = [f"name = {_value(tables.pop('name'))}"]
    for key, entries in tables.items():
        lines += ["", f"[{key}]", *(f"{entry} = {_value(value)}" for entry, value in entries.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """A text, list or number as JSON writes it, which is valid TOML too."""
    return json.dumps(value, ensure_ascii=False)


def _known(where: str, entries: Mapping[str, Any], known: list[str]) -> None:
    for name in entries:
        if name not in known:
            raise DepthlrError(
                f"{where} has an unknown entry {name!r}{did_you_mean(str(name), known)}: it takes {', '.join(known)}."
            )
