"""`depthlr sweep STUDY.toml`: tune the rate at several sizes, and fit how it falls. Run again, it resumes."""

from __future__ import annotations

import shutil
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import typer

from depthlr.cli.fit import fit_json
from depthlr.cli.options import (
    DATA_HELP,
    LOSS_HELP,
    OPTIMIZER_HELP,
    Json,
    RetryFailed,
    Timeout,
    expand_options,
    is_study_file,
    parse_sizes,
)
from depthlr.cli.output import count_text, print_json, print_note, print_notes, print_table
from depthlr.cli.train_study import train_study
from depthlr.cluster.cluster import open_cluster
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.models.spec import parse_spec
from depthlr.models.zoo import ZOO
from depthlr.present.findings import slope_of
from depthlr.present.landscape import LEAST_WIDTH, text_landscape
from depthlr.present.report import optimum_json
from depthlr.present.text import loss_label, tuned_text
from depthlr.study.description import Study, read_study, study_from_dict
from depthlr.study.results import Results
from depthlr.study.store import read_store
from depthlr.training.executor import Limits


@dataclass(frozen=True)
class StudyOptions:
    """A study without a file. What is None has the default of the study."""

    model: Annotated[str | None, typer.Option(help="without a study: the model, such as resnet?width=16")] = None
    vary: Annotated[str | None, typer.Option(help="the argument that makes it deeper")] = None
    sizes: Annotated[str | None, typer.Option(help="the values of that argument, such as 3,4,6")] = None
    command: Annotated[
        str | None, typer.Option(help='your own script: "python train.py --lr {rate} --layers {size} --seed {seed}"')
    ] = None
    result: Annotated[
        str | None, typer.Option(help="the file it writes its loss to, such as out/{size}-{seed}-{rate}/metrics.json")
    ] = None
    key: Annotated[str | None, typer.Option(help="the entry of its JSON with the loss", show_default="loss")] = None
    data: Annotated[str | None, typer.Option(help=DATA_HELP, show_default="digits")] = None
    optimizer: Annotated[str | None, typer.Option(help=OPTIMIZER_HELP, show_default="sgd")] = None
    loss: Annotated[str | None, typer.Option(help=LOSS_HELP, show_default="cross_entropy")] = None
    batch: Annotated[int | None, typer.Option(help="examples a step", show_default="128")] = None
    steps: Annotated[int | None, typer.Option(help="steps a run", show_default="100")] = None
    search: Annotated[str | None, typer.Option(help="adaptive, or grid for every rate", show_default="adaptive")] = None
    low: Annotated[float | None, typer.Option(help="lowest rate", show_default="1e-4")] = None
    high: Annotated[float | None, typer.Option(help="highest rate", show_default="10")] = None
    points: Annotated[int | None, typer.Option(help="rates in the grid between them", show_default="80")] = None
    seeds: Annotated[int | None, typer.Option(help="how many seeds", show_default="3")] = None


NO_OPTIONS = StudyOptions()
TABLES = {  # of a study, with the options that describe them
    "model": ("model", "vary", "sizes"),
    "data": ("data",),
    "training": ("optimizer", "loss", "batch", "steps", "command", "result", "key"),
    "search": ("search", "low", "high", "points", "seeds"),
}
KEYS = {"model": "spec", "data": "name", "search": "kind"}  # of options whose entry in the study has another name


@expand_options
def sweep_command(
    study: Annotated[
        str | None, typer.Argument(help="a study: a TOML file, or the .sqlite of a sweep to resume")
    ] = None,
    options: StudyOptions = NO_OPTIONS,
    folder: Annotated[str | None, typer.Option(help="where the data set lies")] = None,
    out: Annotated[
        Path | None, typer.Option(help="the file that keeps it", show_default="the study's name, .sqlite")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="processes on a CPU, or commands, that train at a time", min=1, show_default="one a core, or one a GPU"
        ),
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="show a live page of it, to this computer alone")] = False,
    timeout: Timeout = None,
    retries: Annotated[int, typer.Option(min=0, help="try a cell again whose process died")] = 1,
    retry_failed: RetryFailed = False,
    on: Annotated[
        str | None, typer.Option(help="train on a cluster: ray or slurm", show_default="this machine")
    ] = None,
    address: Annotated[str | None, typer.Option(help="of the Ray cluster: auto, local or ray://...")] = None,
    cpus: Annotated[int, typer.Option(min=1, help="of each cell on a cluster")] = 1,
    gpus: Annotated[float, typer.Option(min=0, help="of each cell on a cluster; Ray takes fractions")] = 0,
    jobs: Annotated[Path, typer.Option(help="the folder of SLURM's jobs, which all machines see")] = Path("jobs"),
    job: Annotated[
        list[str] | None, typer.Option(help="an option of SLURM's jobs, such as timeout_min=60 (repeat)")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="run the code that a .sqlite file names; a TOML file needs no such word")
    ] = False,
    json: Json = False,
) -> None:
    """Sweep rates at several depths and fit the law; run again, it resumes."""
    wanted, path = _described_study(options, out) if study is None else _named_study(study, options, out)
    if study is not None and is_study_file(study) and wanted.named_code and not trust:
        raise DepthlrError(
            f"{study} names code that a sweep would run: {', '.join(wanted.named_code)}. Add --trust if you trust it."
        )
    if folder is not None:
        wanted = replace(wanted, data=replace(wanted.data, folder=folder))
    cluster = None
    if on is not None:
        cluster = partial(open_cluster, on=on, address=address, cpus=cpus, gpus=gpus, jobs=jobs, options=job or ())
    with redirect_stdout(sys.stderr):  # a model, a loss or data of the user's own may print
        results = train_study(
            wanted,
            path,
            serve=serve,
            workers=workers,
            limits=Limits(timeout, retries),
            retry_failed=retry_failed,
            open_cluster=cluster,
        )
    _print(results, path, json)


def _named_study(named: str, options: StudyOptions, out: Path | None) -> tuple[Study, Path]:
    """The study of a file, and the file that keeps its cells."""
    for option, value in vars(options).items():
        if value is not None:
            raise DepthlrError(f"--{option} and {named} both describe a study: change the file, or leave it out.")
    if is_study_file(named):
        return read_store(named).study, out or Path(named)
    return read_study(named), out or Path(named).with_suffix(".sqlite")


def _described_study(options: StudyOptions, out: Path | None) -> tuple[Study, Path]:
    """The study that options describe, and the file that keeps its cells."""
    given = {option: value for option, value in vars(options).items() if value is not None}
    if "sizes" not in given or not given.keys() & {"command", "model"}:
        raise DepthlrError(
            "There is nothing to sweep: name a study's TOML file, or give --sizes and one of --model and --command."
        )
    given["sizes"] = parse_sizes(given["sizes"])
    name = "command"
    if "command" not in given:
        given.setdefault("steps", 100)
    if "model" in given:
        spec = parse_spec(given["model"])
        name = spec.name.replace(":", "-")
        if "vary" not in given and spec.family != "zoo":
            raise DepthlrError(f"{spec} needs --vary: name the argument that makes it deeper, such as n_layer.")
        given.setdefault("vary", "blocks" if spec.family == "zoo" and "blocks" in ZOO[spec.name].defaults else "layers")
    path = out or Path(f"{name}.sqlite")
    tables: dict[str, Any] = {"name": path.stem}
    for table, entries in TABLES.items():
        tables[table] = {KEYS.get(option, option): given[option] for option in entries if option in given}
    return study_from_dict(tables), path


def _print(results: Results, path: Path, json: bool) -> None:
    size_name = results.study.model.size_name
    slopes = {"depth": slope_of(results, "depth"), size_name: slope_of(results, "size")}
    fits = {over: found for over, found in slopes.items() if found}
    if json:
        lines = {}
        for name, found in fits.items():
            lines[name] = fit_json(found, {}, "depth" if name == "depth" else "size")
        print_json(
            {
                "study": results.study.to_dict(),
                "store": str(path),
                "cells": len(results.records),
                "optima": [optimum_json(results, curve) | {"cells": len(curve.rates)} for curve in results.curves],
                "fits": lines,
                "notes": list(results.notes),
            }
        )
        return
    loss_name = "mean validation loss" if results.metric == "validation" else "mean loss"
    columns = (size_name, "depth", "best rate", "lowest seed", "highest seed", loss_name)
    rows = [_size_row(results, size) for size in results.study.model.sizes]
    seeds = count_text(len(results.study.search.seeds), "seed")
    print_table(columns, rows, title=f"{results.study.model.title}, {seeds}")
    for over, line in fits.items():
        print(f"over {'effective depth' if over == 'depth' else over}: {line}")
    print_notes(results.notes)
    print_note(f"rates are judged by the {loss_label(results)}")
    columns_wide = shutil.get_terminal_size().columns
    if results.records and columns_wide >= LEAST_WIDTH:
        print_note(text_landscape(results, min(100, columns_wide)))
    print_note(f"{len(results.records)} cells are kept in {path}: see depthlr report, plot, fit and export")


def _size_row(results: Results, size: int) -> tuple[object, ...]:
    low, high, loss = "-", "-", "-"
    if found := results.inside(size):
        rates = [best.rate for best in found]
        low, high, loss = rate_text(min(rates)), rate_text(max(rates)), f"{fmean(best.loss for best in found):.4f}"
    best_rate = tuned_text(results, size) + (" ?" if size in results.doubts else "")
    return size, (results.depths or {}).get(size, "-"), best_rate, low, high, loss
