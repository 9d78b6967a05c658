"""What a sweep found: curves, optima, the line through them, notes, and the table of its cells."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from depthlr.errors import DepthlrError
from depthlr.formatting import html_table
from depthlr.law.curve import Optimum, geometric, optimum
from depthlr.law.fit import POOLING, Fit, fit_power_law
from depthlr.study.curves import RETRY, Curve, by_size, chance_loss, doubts
from depthlr.study.description import Study
from depthlr.study.record import Content, Environment, Record, stored_metric
from depthlr.study.search import SearchState, search_state
from depthlr.study.store import read_store
from depthlr.training.cell import Cell

Over = Literal["size", "depth"]
CSV_COLUMNS = ("size", "depth", "seed", "rate", "loss", "diverged")
NAMED = 5  # damaged cells that a note names
TIMES = ("seconds", "finished")  # what differs between two runs of one study


@dataclass(frozen=True)
class Results:
    """A study's finished cells by size, seed and rate, with its models' effective depths, if they were counted."""

    study: Study
    records: tuple[Record, ...]
    depths: Mapping[int, int] | None = None
    environments: tuple[Environment, ...] = ()  # that ran it, in the order in which they came, if recorded
    damaged: tuple[Cell, ...] = ()  # whose records cannot be trusted, and are not among `records`
    described: bool = True  # whether the study's data and training trained the cells; else the user's own code did
    chosen_metric: str | None = None  # what losses are shown by, where it is not the study's own metric

    @property
    def metric(self) -> str:
        """What `curves`, `rows` and fits are judged by."""
        return self.chosen_metric or self.study.training.metric

    def by(self, metric: str) -> Results:
        """The same cells, judged by another metric that was stored with them.

        Args:
            metric: `budget`, `last_epoch`, `validation`, `validation@0.5` after half of the steps, or `error`, which is
                1 - accuracy at the end. The cells that were run are those that the study's own metric asked for.
        """
        if metric not in self.metrics:
            raise DepthlrError(
                f"The metric {metric!r} was not stored with the cells: choose from {', '.join(self.metrics)}."
            )
        return replace(self, chosen_metric=None if metric == self.study.training.metric else metric)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that were stored with every cell, as `by` takes them; the study's own comes first."""
        training = self.study.training
        names = ["budget", *(["last_epoch"] if training.epochs is not None else [])]
        if self.study.data.validation is not None or not self.described:
            names += ["validation", *(f"validation@{share:g}" for share in training.evaluate_at or ()), "error"]
        trained = any(not record.diverged for record in self.records)
        stored = [name for name in names if not trained or self._stores(name)]
        return tuple(dict.fromkeys([training.metric, *stored]))

    def _stores(self, metric: str) -> bool:
        """Whether every cell that did not diverge has a value of this metric, and at least one such cell exists."""
        epochs = self.study.training.epochs
        values = [stored_metric(record, metric, epochs) for record in self.records if not record.diverged]
        return bool(values) and None not in values

    def loss_of(self, record: Record) -> float:
        """What a cell is judged by; infinite if it diverged, or if the chosen metric is not finite.

        Args:
            record: The finished cell.
        """
        if self.chosen_metric is None or record.diverged:
            return record.loss
        loss = stored_metric(record, self.chosen_metric, self.study.training.epochs)
        return loss if loss is not None and math.isfinite(loss) else math.inf

    @cached_property
    def search_state(self) -> SearchState:
        """What the search wants next, and how much is still to come."""
        return search_state(self.study, self.records)

    @property
    def complete(self) -> bool:
        """Nothing is left to run."""
        return not self.search_state.missing

    @cached_property
    def curves(self) -> tuple[Curve, ...]:
        """One curve per size and seed that has a finished cell."""
        found: dict[tuple[int, int], list[Record]] = {}
        for record in self.records:
            found.setdefault((record.cell.size, record.cell.seed), []).append(record)
        bounds, curves = (self.study.search.low, self.study.search.high), []
        for (size, seed), records in found.items():
            rates, losses = tuple(record.cell.rate for record in records), tuple(map(self.loss_of, records))
            failed = frozenset(record.cell.rate for record in records if record.failure)
            curves.append(Curve(size, seed, rates, losses, optimum(rates, losses, bounds=bounds), failed))
        return tuple(curves)

    def inside(self, size: int) -> tuple[Optimum, ...]:
        """The seeds' optima at a size; those at the edge of the range are left out, being bounds and no optima.

        Args:
            size: The size.
        """
        return self._inside.get(size, ())

    @cached_property
    def tuned_rates(self) -> dict[int, float]:
        """The geometric mean of the seeds' optima inside the range, by size. Sizes without one are left out."""
        return {size: geometric(map(attrgetter("rate"), found)) for size, found in self._inside.items()}

    @cached_property
    def doubts(self) -> dict[int, str]:
        """Why a best rate means little, by size. Sizes that are still being searched are not judged."""
        undecided = min((cell.size for cell in self.search_state.missing), default=math.inf)
        chance = chance_loss(self.study) if self.described else None
        judged_by = "validation loss" if self.described and self.metric.startswith("validation") else "loss"
        if self.metric == "error":
            judged_by = "validation error"
            chance = None if chance is None else 1 - math.exp(-chance)  # one of `exp(chance)` classes is right
        return {size: why for size, why in doubts(self.curves, chance, judged_by).items() if size < undecided}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a fit leaves out, and why, and which of its rates say little."""
        notes = [f"size {curve.size}, seed {curve.seed}: {curve.fault}" for curve in self.curves if curve.fault]
        notes += [f"size {size} {why}; its best rate says little: train longer" for size, why in self.doubts.items()]
        unfinished = [] if self.complete else ["the sweep is not finished: run it again to go on"]
        return (*self.damage, *self.failures, *notes, *unfinished)

    @property
    def damage(self) -> tuple[str, ...]:
        """One sentence that names the damaged cells, if there are any."""
        if not self.damaged:
            return ()
        named = "; ".join(f"size {c.size!r}, seed {c.seed!r}, rate {c.rate!r}" for c in self.damaged[:NAMED])
        more = f" and {len(self.damaged) - NAMED} more" if len(self.damaged) > NAMED else ""
        count = f"{len(self.damaged)} damaged record{'' if len(self.damaged) == 1 else 's'}"
        return (f"{count} left out ({named}{more}): run the sweep again to replace what is lost",)

    @property
    def failures(self) -> tuple[str, ...]:
        """One sentence on the cells that could not be trained, with the reason of the first, if there are any."""
        failed = [record for record in self.records if record.failure]
        if not failed:
            return ()
        first = failed[0].cell
        count = "1 cell failed and counts" if len(failed) == 1 else f"{len(failed)} cells failed and count"
        named = f"size {first.size}, seed {first.seed}, rate {first.rate:g}: {failed[0].failure}"
        again = "trains it again" if len(failed) == 1 else "trains them again"
        return (f"{count} as worse than any loss ({named}): {RETRY} {again}",)

    def fit(self, over: Over = "size", depths: Mapping[int, float] | None = None, *, pooling: float = POOLING) -> Fit:
        """The line through the optima inside the range.

        Args:
            over: The line is over the sizes, or over the effective depths.
            depths: The depth of each size. None takes those that the sweep counted.
            pooling: How far seeds' variances are averaged over sizes. 0 leaves each its own, as the paper does.
        """
        if over == "size":
            if depths is not None:
                raise DepthlrError("depths are for a fit over depth: ask for over='depth', or leave them out.")
            depths = {size: size for size in self.study.model.sizes}
        elif over != "depth":
            raise DepthlrError(f"A fit is over size or depth, not {over!r}: choose one of them.")
        places = self.depths if depths is None else depths
        if places is None or not set(self._inside) <= set(places):
            raise DepthlrError("The effective depth of some size is not known: pass depths={size: depth, ...}.")
        if len(self._inside) < 2:
            mend = ": add sizes, or widen the range of rates"
            if not self.complete:
                mend = ", and the sweep is not finished: run it on"
            raise DepthlrError(f"A slope needs optima inside the range at two sizes or more{mend}.")
        at: list[float] = []
        rates: list[float] = []
        for size, optima in self._inside.items():
            at += [places[size]] * len(optima)
            rates += [found.rate for found in optima]
        return fit_power_law(at, rates, spacing=self.study.search.spacing, pooling=pooling)

    def rows(self, *, times: bool = False) -> list[dict[str, Any]]:
        """One row per cell, by size, seed and rate. An unknown depth is None, a diverged loss infinite.

        Args:
            times: Add the seconds that the cell took, and when it was finished.
        """
        table = []
        for record in self.records:
            cell = record.cell
            row: dict[str, Any] = {"size": cell.size, "depth": (self.depths or {}).get(cell.size), "seed": cell.seed}
            row |= {"rate": cell.rate, "loss": self.loss_of(record), "diverged": record.diverged}
            if times:
                row |= {"seconds": record.seconds, "finished": record.finished}
            table.append(row)
        return table

    def _repr_html_(self) -> str:
        """One row per size and seed: cells may be a hundred thousand."""
        rows = []
        for curve in self.curves:
            best = ("-", "-") if curve.optimum is None else (f"{curve.optimum.rate:.3g}", f"{curve.optimum.loss:.4g}")
            rows.append((curve.size, curve.seed, len(curve.rates), *best))
        columns = (self.study.model.size_name, "seed", "cells", "best rate", "loss")
        return html_table(f"{self.study.name}: {len(self.records)} cells by {self.metric}", columns, rows, self.notes)

    @cached_property
    def _inside(self) -> dict[int, tuple[Optimum, ...]]:
        found: dict[int, tuple[Optimum, ...]] = {}
        for size, curves in by_size([curve for curve in self.curves if curve.inside]).items():
            found[size] = tuple(curve.optimum for curve in curves if curve.optimum)
        return found


def results_of(content: Content) -> Results:
    """Results from what a store holds; damaged records do not count.

    Args:
        content: What a study's file holds.
    """
    records = tuple(content.records[cell] for cell in sorted(content.records))
    # Whoever trains by the study has its data, whose digest is kept.
    described = content.data_digest is not None
    return Results(content.study, records, content.depths, content.environments, content.damaged, described)


def read_results(path: Path | str, metric: str | None = None) -> Results:
    """Results of a study's file, finished or not.

    Args:
        path: The study's file.
        metric: A stored metric, as `Results.by` takes it. None takes the study's own.
    """
    results = results_of(read_store(path))
    return results if metric is None else results.by(metric)


def to_csv(results: Results, *, times: bool = False) -> str:
    """Results as CSV. Floats are written so that they read back the same, infinity as inf, an unknown depth as nothing.

    Args:
        results: The results.
        times: Also write the seconds and the end of each cell.
    """
    columns = CSV_COLUMNS + TIMES if times else CSV_COLUMNS
    lines = [",".join(columns)]
    for row in results.rows(times=times):
        lines.append(",".join(cell_text(row[column]) for column in columns))
    return "\n".join(lines) + "\n"


def to_json(results: Results, *, times: bool = False) -> str:
    """Results as a JSON list of objects. JSON has no infinity, so the loss of a diverged cell is null.

    Args:
        results: The results.
        times: Also write the seconds and the end of each cell.
    """
    table = results.rows(times=times)
    for row in table:
        row["loss"] = None if math.isinf(row["loss"]) else row["loss"]
    return json.dumps(table, indent=1, allow_nan=False) + "\n"


def cell_text(value: Any) -> str:
    """Nothing for an unknown value; floats as Python's repr writes them, which reads back the same.

    Args:
        value: A number, a text, or None.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
