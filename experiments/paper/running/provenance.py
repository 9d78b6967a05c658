"""What a result must say of itself: device, precision, versions, data."""

from __future__ import annotations

from typing import Any

import numpy as np

from depthlr.data.examples import Examples
from depthlr.study import check
from depthlr.study.environment import Environment, environment
from experiments.paper.shape import Shape, an_object

PROVENANCE: Shape = {
    "device": check.text,
    "precision": check.text,
    "versions": an_object(dict.fromkeys(("depthlr", "torch", "numpy", "python"), check.text)),
    "data": an_object({"name": check.text, "examples": check.count, "digest": check.text}),
}


def provenance(precision: str, examples: Examples, ran: Environment | None = None) -> dict[str, Any]:
    """Plain values, as JSON has them; of this process, unless it ran elsewhere."""
    here = ran or environment()
    return {
        "device": here.device,
        "precision": precision,
        "versions": {"depthlr": here.depthlr, "torch": here.torch, "numpy": np.__version__, "python": here.python},
        "data": {"name": examples.name, "examples": len(examples), "digest": examples.digest},
    }
