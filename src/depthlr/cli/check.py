"""`depthlr check MODEL --vary blocks --sizes 2,4,8`: will a rate carry? Exit code 1 if it will not."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer
from torch import nn

from depthlr.cli.files import picture_form, write_picture
from depthlr.cli.fit import fit_json
from depthlr.cli.measurement import Batches, measurement_data, measurement_progress, prepare_measurement
from depthlr.cli.options import MEASUREMENT, Json, MeasurementOptions, Model, expand_options, parse_sizes
from depthlr.cli.output import count_text, print_json, print_note, print_notes, print_table
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.present.energy_plots import LINE, depth_check
from depthlr.present.style import set_title
from depthlr.study.description import Models
from depthlr.transfer.check import TABLE, TransferCheck, Verdict, check_transfer

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@expand_options
def check_command(
    model: Model,
    vary: Annotated[str, typer.Option(help="the argument that makes it deeper, such as blocks")],
    sizes: Annotated[str, typer.Option(help="the values of that argument, such as 2,4,8")],
    options: MeasurementOptions = MEASUREMENT,
    plot: Annotated[Path | None, typer.Option(help="also draw it: .png, .svg or .pdf")] = None,
    json: Json = False,
) -> None:
    """Check that a rate carries across depths; exit code 0 for pass and caution, 1 for fail."""
    form = "" if plot is None else picture_form(plot, "--plot")
    models = Models(model, vary, tuple(parse_sizes(sizes)))
    on = measurement_data(options)
    builders: dict[int, Callable[[], nn.Module]] = {}
    batches: Batches | None = None  # every size is measured on the examples of the first
    for size in models.sizes:
        given = prepare_measurement(str(models.spec_at(size)), on, batches=batches)
        builders[size], batches = given.build, given.batches

    def build(size: int) -> nn.Module:
        return builders[size]()

    with measurement_progress(options, model):
        found = check_transfer(build, models.sizes, batches, on.loss_fn, options.optimizer, seeds=options.seeds)
    if json:
        given_options = {"optimizer": options.optimizer, "data": options.data, "loss": options.loss}
        print_json({"model": model, "vary": vary, **given_options, **_as_json(found)})
    else:
        rows = [(*row.cells[:2], rate_text(row.rate), *row.cells[3:]) for row in found.sizes]
        print_table(TABLE, rows, title=f"{model}, {options.optimizer}, {count_text(options.seeds, 'seed')}")
        if found.fit is not None:
            print(f"over effective depth: {found.fit}")
        print(found.headline)
        print_note("law, copy: decades by which the rule's rate from the smallest size misses the measured one")
        print_notes(found.notes)
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
    sizes = []
    for row in found.sizes:
        numbers = {"rate": row.rate, "sd": row.sd, "law_error": row.law_error, "copy_error": row.copy_error}
        uncertainty = row.uncertainty if math.isfinite(row.uncertainty) else None
        sizes.append({"size": row.size, "depth": row.depth.total, **numbers, "uncertainty": uncertainty})
    fit = None if found.fit is None else fit_json(found.fit, {})
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "notes": list(found.notes),
        "fit": fit,
        "sizes": sizes,
    }
