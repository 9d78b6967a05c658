"""`depthlr check MODEL --vary blocks --sizes 2,4,8`: will a rate carry? Exit code 1 if it will not."""

from __future__ import annotations

import math
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer
from torch import nn

from depthlr.cli.fit import fit_json
from depthlr.cli.measurement import measurement_data, note_redrawn, prepare_measurement, progress_bar
from depthlr.cli.options import (
    DEFAULT_LOSS,
    RANDOM,
    BatchSize,
    DataName,
    Folder,
    Input,
    Json,
    LossName,
    Model,
    OptimizerName,
    OwnInit,
    SeedsOption,
    parse_sizes,
)
from depthlr.cli.output import picture_form, print_json, print_note, print_table, write_picture
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.present.energy_plots import LINE, depth_check
from depthlr.present.style import set_title
from depthlr.study.description import Models
from depthlr.transfer.check import TABLE, SizeCheck, TransferCheck, Verdict, check_transfer

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def check(
    model: Model,
    vary: Annotated[str, typer.Option(help="the argument that makes it deeper, such as blocks")],
    sizes: Annotated[str, typer.Option(help="the values of that argument, such as 2,4,8")],
    optimizer: OptimizerName = "sgd",
    data: DataName = RANDOM,
    loss: LossName = DEFAULT_LOSS,
    folder: Folder = None,
    batch: BatchSize = 64,
    seeds: SeedsOption = 3,
    input: Input = None,
    own_init: OwnInit = False,
    plot: Annotated[Path | None, typer.Option(help="also draw it: .png, .svg or .pdf")] = None,
    json: Json = False,
) -> None:
    """Check that a rate carries across depths; exit code 0 for pass and caution, 1 for fail."""
    form = "" if plot is None else picture_form(plot, "--plot")
    models = Models(model, vary, tuple(parse_sizes(sizes)))
    on = measurement_data(data, batch, loss, folder=folder, input=input)
    options: dict[str, Any] = {"own_init": own_init, "draws": max(seeds, 1)}
    smallest, *larger = models.sizes
    first = prepare_measurement(str(models.at(smallest)), on, **options)
    options["batches"] = first.batches  # every size is measured on the same examples
    tasks = {smallest: first} | {size: prepare_measurement(str(models.at(size)), on, **options) for size in larger}

    def build(size: int) -> nn.Module:
        return tasks[size].build()

    with progress_bar():
        found = check_transfer(build, models.sizes, first.batches, first.loss_fn, optimizer, seeds=seeds)
    note_redrawn(first)
    if json:
        given = {"model": model, "vary": vary, "optimizer": optimizer, "data": data, "loss": loss}
        print_json({**given, **_as_json(found)})
    else:
        rows = [(*row.cells[:2], rate_text(row.rate), *row.cells[3:]) for row in found.sizes]
        print_table(TABLE, rows, title=f"{model}, {optimizer}, {seeds} seeds")
        if found.fit is not None:
            print(f"over effective depth: {found.fit}")
        print(found.headline)
        print_note("law, copy: decades by which the rule's rate from the smallest size misses the measured one")
        for note in found.notes:
            print_note(f"note: {note}")
    if plot is not None:
        _draw(found, plot, form)  # last: a picture that cannot be drawn costs no result
    if found.verdict is Verdict.fail:
        raise typer.Exit(1)


def _draw(found: TransferCheck, path: Path, form: str) -> None:
    if found.fit is None:
        raise DepthlrError("--plot draws rates against depth, and every size has the same: leave it out.")

    def draw(axes: Axes) -> None:
        depth_check({row.depth.total: row.energies for row in found.sizes}, persistent=found.fit, axes=axes)
        set_title(axes, fill(found.headline, LINE), bold=True)  # of the whole check, where the plot judges its slope

    write_picture(draw, path, form)


def _as_json(found: TransferCheck) -> dict[str, Any]:
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "notes": list(found.notes),
        "fit": None if found.fit is None else fit_json(found.fit, {}),
        "sizes": [_size_json(row) for row in found.sizes],
    }


def _size_json(row: SizeCheck) -> dict[str, Any]:
    return {
        "size": row.size,
        "depth": row.depth.total,
        "rate": row.rate,
        "sd": row.sd,
        "law_error": row.law_error,
        "copy_error": row.copy_error,
        "uncertainty": row.uncertainty if math.isfinite(row.uncertainty) else None,
    }
