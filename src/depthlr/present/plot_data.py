"""The numbers behind the page's plots, small enough to travel: long curves are thinned, optima never dropped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from depthlr.law.power import LAW_EXPONENT
from depthlr.present.captions import loss_label
from depthlr.present.findings import Findings
from depthlr.study.curves import Curve
from depthlr.study.results import Over

POINTS = 50_000  # drawn on a page, over all curves
FEWEST = 12  # kept of a curve, however many curves there are
STEPS = 25  # of a band's outline
DIGITS = 5  # of a loss: more than a screen can show


def plot_data(found: Findings) -> dict[str, Any]:
    """Plain lists for JSON: grid rates once, a curve's rates as places in them, null for a diverged loss."""
    rates = sorted({rate for curve in found.curves for rate in curve.rates})
    place = {rate: index for index, rate in enumerate(rates)}
    most = max(FEWEST, POINTS // max(1, len(found.curves)))
    return {
        "vary": found.results.study.model.size_name,
        "over": found.over,
        "loss": loss_label(found.results),
        "law": LAW_EXPONENT,
        "sizes": [{"size": size, "depth": (found.results.depths or {}).get(size)} for size in _sizes(found)],
        "seeds": sorted({curve.seed for curve in found.curves}),
        "rates": [float(f"{rate:.6g}") for rate in rates],
        "curves": [_curve(curve, place, most) for curve in found.curves],
        "rows": [_row(found, index) for index in range(len(found.rows))],
        "fits": {over: _fit(found, over) for over in found.slopes},
        "thinned": any(len(curve.rates) > most for curve in found.curves),
    }


def thinned(losses: Sequence[float], best: int | None, most: int) -> list[int]:
    """At most about `most` places of a curve: its ends, the optimum with its neighbours, and an even choice between."""
    count = len(losses)
    if count <= most:
        return list(range(count))
    kept = {0, count - 1, *(round(step * (count - 1) / (most - 1)) for step in range(most))}
    if best is not None:
        kept |= {index for index in range(best - 2, best + 3) if 0 <= index < count}
    return sorted(kept)


def _sizes(found: Findings) -> list[int]:
    return sorted({curve.size for curve in found.curves})


def _curve(curve: Curve, place: dict[float, int], most: int) -> list[Any]:
    """[size, seed, rates, losses, the optimum's place among them or -1, its edge or null]"""
    best = curve.optimum
    kept = thinned(curve.losses, None if best is None else best.index, most)
    return [
        curve.size,
        curve.seed,
        [place[curve.rates[index]] for index in kept],
        [_loss(curve.losses[index]) for index in kept],
        -1 if best is None else kept.index(best.index),
        None if best is None else best.edge,
    ]


def _loss(loss: float) -> float | None:
    return float(f"{loss:.{DIGITS}g}") if math.isfinite(loss) else None


def _row(found: Findings, index: int) -> dict[str, Any]:
    row = found.rows[index]
    return {"size": row.size, "depth": row.depth, "rate": row.rate, "interval": row.interval, "seeds": row.seeds}


def _fit(found: Findings, over: Over) -> dict[str, Any] | None:
    """The line as slope and intercept, and its band at the places of the plot."""
    fit = found.slopes[over]
    if fit is None:
        return None
    places = [row.size if over == "size" else row.depth for row in found.rows]
    ends = [float(place) for place in places if place is not None]
    low, high = math.log10(min(ends)), math.log10(max(ends))
    depths = [10 ** (low + (high - low) * step / (STEPS - 1)) for step in range(STEPS)]
    edges = fit.band(depths)
    return {
        "slope": fit.slope,
        "intercept": fit.intercept,
        "law": fit.intercept + (fit.slope - LAW_EXPONENT) * fit.centre,  # the intercept of the law's line
        "interval": list(fit.interval) if fit.bounded else None,
        "band": [] if edges is None else [list(map(float, ends)) for ends in zip(depths, *edges, strict=True)],
        "last": max(point.depth for point in fit.points),
    }
