"""Results made by hand, and energies, for tests of plots."""

from __future__ import annotations

import math
from collections.abc import Mapping

from depthlr.energy.energy import Energy, EnergyOverSeeds, UnitEnergy
from depthlr.study import Models, Record, Results, Search, Study, Training
from depthlr.trace.units import Unit
from depthlr.training.cell import Cell
from experiments.landscape import landscape, study


def results_of(losses: Mapping[tuple[int, int], Mapping[float, float]], **study_entries: object) -> Results:
    """Results from loss by rate by (size, seed), in a study whose range is wider than they are."""
    sizes, seeds = sorted({size for size, _ in losses}), sorted({seed for _, seed in losses})
    entries: dict[str, object] = {
        "name": "made",
        "model": Models("mlp?width=8", "layers", tuple(sizes)),
        "training": Training(steps=2),
        "search": Search("grid", low=1e-4, high=10.0, points=6, seeds=tuple(seeds)),
    }
    records = [
        Record(Cell(size, seed, rate), loss, math.isinf(loss), 1.0, "2026-01-01", b"")
        for (size, seed), curve in losses.items()
        for rate, loss in curve.items()
    ]
    records.sort(key=lambda record: record.cell)
    return Results(Study(**entries | study_entries), tuple(records), {size: size + 1 for size in sizes})  # type: ignore[arg-type]


def made_landscape(seed: int = 7, **options: object) -> Results:
    """The whole grid of a made-up landscape, diverged cells and all."""
    given = landscape(seed, study("grid", **options))  # type: ignore[arg-type]
    search = given.study.search
    return results_of(
        {
            (size, k): {rate: given.loss(Cell(size, k, rate)) for rate in search.rates}
            for size in given.study.model.sizes
            for k in search.seeds
        },
        model=given.study.model,
        search=search,
    )


def energy_of(values: list[float], readout: float) -> Energy:
    units = [
        Unit("plain", "head" if i + 1 == len(values) else "body", f"u{i}", f"u{i}", 8, i, i) for i in range(len(values))
    ]
    return Energy(tuple(UnitEnergy(u, v, 1.0) for u, v in zip(units, values, strict=True)), readout, 1.0, 2.3)


def energies_falling(
    slope: float, depths: tuple[int, ...] = (4, 8, 16, 32), scatter: float = 0.02
) -> dict[float, EnergyOverSeeds]:
    """Energies whose rate for mean energy 1 falls as depth^slope, give or take some scatter over three seeds."""
    found: dict[float, EnergyOverSeeds] = {}
    for depth in (4, 8, 16, 32):
        seeds = []
        for sign in (-1, 0, 1):
            energy = depth ** (-2 * slope) * 10 ** (2 * scatter * sign)
            seeds.append(energy_of([energy] * depth, 3 * energy))
        found[depth] = EnergyOverSeeds(tuple(seeds))
    return found
