"""What verdicts depend on: the same fits with the paper's weights, with other sizes, and the verdicts that change."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit
from depthlr.law.rules import LAW_EXPONENT
from depthlr.study.adaptive import APART
from depthlr.study.results import Results
from experiments.pages import markdown_table
from experiments.paper.page.comparison import against
from experiments.paper.page.kept import Sweep
from experiments.paper.page.words import NOTHING, slope

PAPERS_POOLING = 0.0  # one over each depth's own variance
HEAD = (
    "setting",
    "as above",
    "with the paper’s own weights",
    "with the sizes that hardly do better than guessing",
    f"without sizes whose seeds lie {APART:g} decades apart",
)


def sensitivity(sweeps: Sequence[Sweep]) -> str:
    """A row a finished sweep whose verdict on the law, over total depth, is another one in some column."""
    rows = []
    for sweep in sweeps:
        fits = [sweep.fit("depth"), _fit(sweep.learnt, PAPERS_POOLING)]
        cells = [_cell(fit) for fit in fits]
        for sizes, results in ((sweep.unlearnt, sweep.results), (apart(sweep), _without(sweep.learnt, apart(sweep)))):
            fits += [_fit(results)] if sizes else []
            cells.append(f"{_cell(fits[-1])}: {', '.join(map(str, sizes))}" if sizes else NOTHING)
        if len({against(fit, LAW_EXPONENT) for fit in fits}) > 1:
            rows.append([sweep.setting.title, *cells])
    same = len(sweeps) - len(rows)
    return (
        f"{same} of {len(sweeps)} verdicts stay as they are. The others:\n\n{markdown_table(HEAD, rows)}"
        if rows
        else ""
    )


def apart(sweep: Sweep) -> tuple[int, ...]:
    """Sizes that learn, but whose seeds disagree on where the optimum is."""
    found: dict[int, list[float]] = {}
    for curve in sweep.learnt.curves:
        if curve.optimum is not None:
            found.setdefault(curve.size, []).append(math.log10(curve.optimum.rate))
    return tuple(size for size, logs in sorted(found.items()) if max(logs) - min(logs) > APART)


def _without(results: Results, sizes: Collection[int]) -> Results:
    return replace(results, records=tuple(record for record in results.records if record.cell.size not in sizes))


def _fit(results: Results, pooling: float | None = None) -> Fit | None:
    try:
        return results.fit("depth") if pooling is None else results.fit("depth", pooling=pooling)
    except DepthlrError:
        return None


def _cell(fit: Fit | None) -> str:
    return f"{slope(fit)}, {against(fit, LAW_EXPONENT)}"
