"""What depthlr reads, each with valid samples, and with a check that reads an input and knows what may come of it.

A check passes if the input is read, or if it is refused by a `DepthlrError` whose message is one printable line. Files
that were only read must have the same bytes afterwards.
"""

from __future__ import annotations

import io
import json
import sqlite3
import tempfile
import wave
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from depthlr.data.audio import SAMPLE_RATE, load_wav
from depthlr.data.files import _read_record
from depthlr.errors import DepthlrError
from depthlr.models.spec import parse_spec
from depthlr.study import create_study, parse_study, read_results, read_snapshot, sweep, tell, to_csv, to_toml
from depthlr.study.store import _seal
from depthlr.training.command import read_report, read_result
from experiments.fuzz.inputs import edited, json_text, misplaced
from experiments.landscape import LandscapeExecutor, landscape, study

SPECS = (
    *(b"cnn?layers=8&width=64", b"resnet?blocks=4&batch_norm=true", b"vit?blocks=12&width=384", b"hf/gpt2?n_layer=4"),
    *(b"timm/resnet50?drop_rate=0.1", b"mine:build?a=1,2&b='x y'&c=none&d=()&e=1e-3", b"mlp?width=8&activation=gelu"),
)
SPEC_TOKENS = (b"?", b"&", b"=", b"'", b'"', b",", b":", b"/", b"\\", b"()", b"inf", b"nan", b"9" * 5000, b"1e999")
TOML_TOKENS = (b"[", b"]", b"[[", b"=", b'"', b"'''", b"\n", b"#", b"{", b"}", b"1e999", b"true", b"nan", b"[model]")
WAV_TOKENS = (b"RIFF", b"WAVE", b"fmt ", b"data", b"LIST", b"\xff\xff\xff\xff")
SQL_TOKENS = (b"SQLite format 3\0", b"CREATE TABLE ", b"cells", b"facts", b"\xff\xff\xff\xff")
Check = Callable[[Any, Path], None]
"""Reads an input, given an empty folder; raises unless it was read or refused as it should be."""


class Misread(Exception):
    """An input was taken for what it is not, refused in another way than documented, or changed a file."""


@dataclass(frozen=True)
class Reader:
    """Something that reads what others wrote."""

    what: str
    inputs: Callable[[], st.SearchStrategy[Any]]
    check: Check


def refused_in_a_sentence(read: Callable[[], object]) -> bool:
    """Whether the input was refused; a refusal must be one line that a terminal can show."""
    try:
        read()
    except DepthlrError as error:
        says = str(error)
        if not says.strip() or not says.isprintable():
            raise Misread(f"the message is no printable line: {says!r}") from error
        return True
    return False


# -- texts -------------------------------------------------------------------------------------------------------------
def check_spec(content: bytes, folder: Path) -> None:
    """What is read is written and read back the same."""
    text = content.decode(errors="surrogateescape")

    def read() -> None:
        found = parse_spec(text)
        again = parse_spec(str(found))
        one, other = ((spec.family, spec.name, sorted(spec.arguments.items())) for spec in (found, again))
        if repr(one) != repr(other):  # NaN is not equal to itself
            raise Misread(f"{text!r} is {found!r}, written and read back {again!r}")

    refused_in_a_sentence(read)


def check_study(content: bytes, folder: Path) -> None:
    """What is read is written and read back the same."""
    text = content.decode(errors="surrogateescape")

    def read() -> None:
        found = parse_study(text)
        again = parse_study(to_toml(found))
        if again.digest != found.digest:
            raise Misread("the study, written and read back, is another one")

    refused_in_a_sentence(read)


@cache
def study_texts() -> tuple[bytes, ...]:
    full = to_toml(study())
    own = 'name = "own"\n[model]\nsizes = [2, 4]\n[training]\ncommand = "python t.py {rate} {size} {seed}"\n'
    held_out = (
        '[model]\nspec = "resnet?width=16"\nvary = "blocks"\nsizes = [2, 4, 8]\n[data]\nname = "digits"\n'
        'validation = 300\n[training]\nsteps = 200\nbatch = 64\noptimizer = "momentum"\nweight_decay = 5e-4\n'
        'schedule = "warmup-cosine"\nmetric = "validation"\nevaluate_at = [0.25, 0.5]\nvariance = "own"\n'
        '[search]\nkind = "grid"\nlow = 1e-3\nhigh = 1.0\npoints = 12\nseeds = [0, 1]\n'
    )
    return full.encode(), own.encode(), held_out.encode()


# -- clips -------------------------------------------------------------------------------------------------------------
def check_wav(content: bytes, folder: Path) -> None:
    """A folder with one clip."""
    clips = folder / "clips"
    clips.mkdir(exist_ok=True)
    for path in clips.iterdir():
        path.unlink()
    (clips / "7_a.wav").write_bytes(content)

    def read() -> None:
        found = load_wav(clips, mels=8, frames=4)
        if tuple(found.inputs.shape) != (1, 1, 8, 4):
            raise Misread(f"a clip of the shape {tuple(found.inputs.shape)}")

    refused_in_a_sentence(read)


@cache
def clips() -> tuple[bytes, ...]:
    def clip(samples: int, rate: int, channels: int, width: int) -> bytes:
        file = io.BytesIO()
        with wave.open(file, "wb") as sound:
            sound.setframerate(rate)
            sound.setnchannels(channels)
            sound.setsampwidth(width)
            sound.writeframes(bytes(range(256)) * (samples * channels * width // 256 + 1))
        return file.getvalue()

    return clip(900, SAMPLE_RATE, 1, 2), clip(10, SAMPLE_RATE, 1, 2), clip(100, 44_100, 2, 3)


# -- studies on disk ---------------------------------------------------------------------------------------------------
@cache
def stored() -> tuple[bytes, str]:
    """A finished study's file, and its table."""
    given = landscape(0, study(sizes=(3, 4), points=8, seeds=2))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.sqlite"
        sweep(given.study, LandscapeExecutor(given), path)
        return path.read_bytes(), to_csv(read_results(path))


def check_sqlite(content: bytes, folder: Path) -> None:
    """A damaged file is refused, or its table holds no line that the sound one has not; reading changes nothing."""
    path = folder / "study.sqlite"
    path.write_bytes(content)
    known = set(stored()[1].splitlines())

    def read() -> None:
        for found in (read_results(path), read_snapshot(path).results):
            if strange := set(to_csv(found).splitlines()) - known:
                raise Misread(f"cells that were never trained: {sorted(strange)[:3]}")

    refused_in_a_sentence(read)
    if path.read_bytes() != content:
        raise Misread("reading changed the file")


def check_facts(facts: dict[str, Any], folder: Path) -> None:
    """A sealed file whose facts are not what depthlr writes: read and resumed."""
    path = folder / "study.sqlite"
    path.write_bytes(stored()[0])
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM facts")
        rows = [(name, json_text(value)) for name, value in facts.items()]
        connection.executemany("INSERT INTO facts VALUES (?, ?)", rows)
        _seal(connection)
    connection.close()
    refused_in_a_sentence(lambda: to_csv(read_results(path)))


@cache
def facts() -> dict[str, Any]:
    environment = {"device": "CPU", "torch": "2.13.0", "depthlr": "0.1.0", "python": "3.11.7"}
    given = study(sizes=(3, 4), points=8, seeds=2)
    plain = json.loads(json.dumps(given.to_dict()))
    return {"study": plain, "data": "0123", "depths": {"3": 4, "4": 5}, "environments": [environment]}


# -- JSON --------------------------------------------------------------------------------------------------------------
@cache
def told() -> bytes:
    """The file of a study that awaits losses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.sqlite"
        create_study(study(sizes=(3, 4), points=8, seeds=2), path)
        return path.read_bytes()


def check_tell(lines: list[str], folder: Path) -> None:
    """Lines that are told are all kept or none; a refusal leaves the bytes of the file."""
    path = folder / "study.sqlite"
    path.write_bytes(told())

    def read() -> None:
        new = tell(path, lines)
        if len(read_results(path).records) != new:
            raise Misread(f"{new} cells were told, {len(read_results(path).records)} are kept")

    if refused_in_a_sentence(read) and read_results(path).records:
        raise Misread("lines were refused, and some of them were kept")


LINE = {"size": 3, "seed": 0, "rate": 1e-4, "loss": 1.5, "accuracy": 0.5, "seconds": 2.0}


def tell_lines() -> st.SearchStrategy[list[str]]:
    grid = [
        {**LINE, "size": size, "seed": seed, "rate": rate}
        for size in (3, 4)
        for seed in (0, 1)
        for rate in study(points=8).search.rates
    ]
    line = st.sampled_from(grid)
    wrong = line.flatmap(misplaced)
    torn = edited([json_text(LINE).encode()], [b"NaN", b"{", b"}", b"[" * 3000, b"\n"])
    return st.lists(
        st.one_of(line.map(json_text), wrong.map(json_text), torn.map(lambda text: text.decode(errors="replace"))),
        min_size=1,
        max_size=4,
    )


def check_json(content: bytes, folder: Path) -> None:
    """Digests of data, lines and result files of commands."""
    record = folder / "digests.json"
    record.write_bytes(content)
    refused_in_a_sentence(lambda: _read_record(record))
    text = content.decode(errors="replace")
    for line in text.splitlines():
        found = read_report(line)
        if found is not None and "loss" not in found:
            raise Misread("a line without a loss was taken for a report")
    for name in ("result.json", "result.csv"):
        path = folder / name
        path.write_bytes(content)
        with suppress(OSError, ValueError, RecursionError):  # what a command's executor takes for a failed cell
            read_result(path, "loss")


JSON_SAMPLES = (
    b'{"train.bin": "abc", "x": "def"}',
    b"[[1, 2], [3, 4]]",
    b'{"loss": 1.5}\n{"loss": NaN}',
    b"{'loss': 2.5, 'epoch': 1}",
    b"loss,epoch\n1.5,1\n",
)
JSON_TOKENS = (
    b"NaN",
    b"Infinity",
    b"1e999",
    b"[" * 2000,
    b"{" * 2000,
    b'{"a":' * 2000,
    b"-" * 3000,
    b"9" * 5000,
    b"(" * 300,
    b"\\ud800",
    b"null",
    b'"',
)

READERS = {
    "study": Reader("study file (TOML)", lambda: edited(study_texts(), TOML_TOKENS), check_study),
    "spec": Reader("spec text", lambda: edited(SPECS, SPEC_TOKENS), check_spec),
    "wav": Reader("WAV clips", lambda: edited(clips(), WAV_TOKENS), check_wav),
    "sqlite": Reader("store (SQLite), bytes", lambda: edited([stored()[0]], SQL_TOKENS), check_sqlite),
    "facts": Reader("store (SQLite), facts with valid digests", lambda: misplaced(facts()), check_facts),
    "tell": Reader("depthlr tell (JSON lines)", tell_lines, check_tell),
    "json": Reader("digests, reports of commands (JSON)", lambda: edited(JSON_SAMPLES, JSON_TOKENS), check_json),
}
