"""Slopes by kind of model: what a reader with a model of their own wants to know first."""

from __future__ import annotations

from statistics import median

from depthlr.formatting import signed
from depthlr.law.rules import LAW_EXPONENT
from depthlr.models.spec import parse_spec
from depthlr.models.zoo import ZOO
from experiments.pages import markdown_table
from experiments.paper.page.comparison import HOLDS, UNDECIDED, against
from experiments.paper.page.kept import Kept, Sweep
from experiments.paper.page.words import NOTHING
from experiments.paper.setting import Setting

OPTIMIZERS = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}
DEEPER = 4  # times as deep, to say what a slope means
HEAD = (
    "models",
    "settings",
    "slope over total depth, median",
    "all of them",
    "95 % interval contains −3/2",
    f"copied to {DEEPER}x the depth, the rate is",
    "carried by the law, it is",
)


def families(kept: Kept) -> str:
    """A row a kind of model with a finished sweep, most settings first; empty where there is none."""
    found: dict[str, list[Sweep]] = {}
    for sweep in kept.sweeps.values():
        if sweep.counts and sweep.fit("depth") is not None:
            found.setdefault(family(sweep.setting), []).append(sweep)
    rows = [_row(name, found[name]) for name in sorted(found, key=lambda name: -len(found[name]))]
    return markdown_table(HEAD, rows) if rows else ""


def family(setting: Setting) -> str:
    """What the derivation tells apart: plain or residual, where the normalization stands, activation, optimizer."""
    spec = parse_spec(setting.spec)
    arguments = ZOO[spec.name].defaults | dict(spec.arguments)
    if "heads" in arguments:
        kind = f"transformers, {arguments['norm']}-LN"
    else:
        kind = "ResNets" if spec.name == "resnet" else "CNNs"
        kind += " + BatchNorm" if arguments.get("batch_norm") else ""
        kind += f" + {arguments['activation'].upper()}" if arguments["activation"] != "relu" else ""
    return f"{kind}, {OPTIMIZERS[setting.optimizer]}"


def _row(name: str, sweeps: list[Sweep]) -> list[str]:
    fits = [fit for sweep in sweeps if (fit := sweep.fit("depth"))]
    slopes = sorted(fit.slope for fit in fits)
    middle = median(slopes)
    found = [against(fit, LAW_EXPONENT) for fit in fits]
    wide = found.count(UNDECIDED)
    return [
        name,
        str(len(slopes)),
        f"**{signed(middle)}**",
        f"{signed(slopes[0])} to {signed(slopes[-1])}" if len(slopes) > 1 else NOTHING,
        f"{found.count(HOLDS) + wide} of {len(slopes)}" + (f", {wide} wider than a power" if wide else ""),
        off(DEEPER**-middle),
        off(DEEPER ** (LAW_EXPONENT - middle)),
    ]


def off(ratio: float) -> str:
    """A rate over the tuned one, in words."""
    return f"{ratio:.2g}x too large" if ratio >= 1 else f"{1 / ratio:.2g}x too small"
