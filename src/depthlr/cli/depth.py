"""`depthlr depth MODEL`: the units, one a row, and the total. `depthlr groups MODEL`: its parameter groups."""

from __future__ import annotations

from typing import Annotated

import typer

from depthlr.cli.options import Input, Json, Model
from depthlr.cli.output import print_json, print_note, print_notes, print_table
from depthlr.models.build import build
from depthlr.trace.depth import effective_depth
from depthlr.transfer.groups import TABLE_FORMATS, group_multipliers, param_groups, table_text


def depth_command(model: Model, input: Input = None, json: Json = False) -> None:
    """Count the effective depth of a model."""
    found = effective_depth(*build(model, input=input, meta=True))
    if json:
        units = [
            {"kind": u.kind, "role": u.role, "width": u.width, "module": u.path, "last_weight": u.branch}
            for u in found.units
        ]
        counts = {name: getattr(found, name) for name in ("total", "backbone", "plain", "residual", "width")}
        print_json({**counts, "units": units, "flags": list(found.flags)})
        return
    rows = [(i, u.kind, u.role, u.width, u.path or ".", u.branch) for i, u in enumerate(found.units, 1)]
    print_table(("unit", "kind", "role", "width", "module", "last weight"), rows, title=model)
    print(f"effective depth {found.total} (backbone {found.backbone}; {found.plain} plain, {found.residual} residual)")
    print_notes(found.flags)


def groups_command(
    model: Model,
    rate: Annotated[float, typer.Option(help="the rate of the weights")],
    weight_decay: Annotated[float, typer.Option(help="of weights; the rest does not decay")] = 0.0,
    tuned_rate: Annotated[
        float | None, typer.Option(help="the rate with which the decay was tuned: keep rate times decay")
    ] = None,
    other_rate: Annotated[
        float | None, typer.Option(help="matrices are Muon's, at --rate; all others are AdamW's, at this rate")
    ] = None,
    format: Annotated[str, typer.Option(help=", ".join(TABLE_FORMATS))] = "yaml",
    input: Input = None,
) -> None:
    """Print the parameter groups of a model as patterns of names with multipliers."""
    made, _ = build(model, input=input, meta=True)
    split = {} if other_rate is None else {"muon": True, "other_rate": other_rate}
    found = param_groups(made, rate, weight_decay=weight_decay, tuned_rate=tuned_rate, **split)  # type: ignore[arg-type]
    base = max(group["lr"] for group in found)
    decay = max(group["weight_decay"] for group in found)
    print(table_text(group_multipliers(made, found), format, base, decay))
    print_note(f"lr_mult multiplies the rate {base:g}, wd_mult the weight decay {decay:g}; the first match counts")
    if other_rate is not None and not any(group["use_muon"] and group["params"] for group in found):
        print_note(f"note: the model has no hidden matrices for Muon, so --rate {rate:g} is not used")
