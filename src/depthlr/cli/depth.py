"""`depthlr depth MODEL`: the units, one a row, and the total."""

from __future__ import annotations

from typing import Any

from depthlr.cli.options import Input, Json, Model
from depthlr.cli.output import print_json, print_note, print_table
from depthlr.models.build import build
from depthlr.trace.depth import Depth, effective_depth


def depth_command(model: Model, input: Input = None, json: Json = False) -> None:
    """Count the effective depth of a model."""
    found = effective_depth(*build(model, input=input, meta=True))
    if json:
        print_json(depth_json(found))
        return
    rows = [(i, u.kind, u.role, u.width, u.path or ".", u.branch) for i, u in enumerate(found.units, 1)]
    print_table(("unit", "kind", "role", "width", "module", "last weight"), rows, title=model)
    print(f"effective depth {found.total} (backbone {found.backbone}; {found.plain} plain, {found.residual} residual)")
    for flag in found.flags:
        print_note(f"note: {flag}")


def depth_json(found: Depth) -> dict[str, Any]:
    """A depth as JSON has it."""
    return {
        "total": found.total,
        "backbone": found.backbone,
        "plain": found.plain,
        "residual": found.residual,
        "width": found.width,
        "units": [
            {"kind": u.kind, "role": u.role, "width": u.width, "module": u.path, "last_weight": u.branch}
            for u in found.units
        ],
        "flags": list(found.flags),
    }
