"""`depthlr demo`: the whole story on embedded data: depth, sweep, fit, and every rule against the tuned rates."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from math import log10
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from depthlr.check import count
from depthlr.cli.measurement import measurement_data, prepare_measurement, progress_bar
from depthlr.cli.options import parse_sizes
from depthlr.cli.output import print_note, print_table
from depthlr.cli.sweep import engine_for
from depthlr.cli.sweep_progress import SweepProgress
from depthlr.data.sources import load
from depthlr.energy.persistent import LARGE_ERROR, SEEDS
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.law.fit import fit_power_law
from depthlr.study.description import MOST_SEEDS, Models, Search, Study
from depthlr.study.results import Results
from depthlr.study.run import sweep
from depthlr.study.task import depths_of
from depthlr.training.training import Training
from depthlr.transfer.recipe import MeasuredModel, Recipe
from depthlr.transfer.rules import Law, Measured

DEMO_MODELS = {"cnn?width=16": "layers", "resnet?width=16": "blocks"}
GRID_POINTS = 40  # eight a decade, as far apart as the optima of three seeds lie


def demo(
    sizes: Annotated[str, typer.Option(help="layers of the CNN, blocks of the ResNet")] = "3,4,6,8,12,16",
    steps: Annotated[int, typer.Option(help="training steps a run")] = 30,
    seeds: Annotated[int, typer.Option(help="initialisations and shuffles")] = 3,
) -> None:
    """Tune the rate at every depth on embedded digits, fit the law, and compare the rules: about a minute."""
    start = time.perf_counter()
    numbers = tuple(parse_sizes(sizes))
    if len(numbers) < 2:
        raise DepthlrError(f"--sizes {sizes}: name at least two sizes, such as 3,6,12.")
    count("--seeds", seeds, most=MOST_SEEDS)
    print_note(
        f"1,797 handwritten digits, SGD, batches of 64, {steps} steps a run, {seeds} seeds, "
        f"{GRID_POINTS} rates from 1e-4 to 10"
    )
    for spec, vary in DEMO_MODELS.items():
        study = Study(
            spec,
            Models(spec, vary, numbers),
            Training(steps=steps, batch=64),
            search=Search(points=GRID_POINTS, seeds=tuple(range(seeds))),
        )
        _print_results(_run_sweep(study), seeds)
    print_note(f"{time.perf_counter() - start:.0f} s")


def _run_sweep(study: Study) -> Results:
    examples = load(study.data.name)
    depths = depths_of(study, examples.input)
    with (
        tempfile.TemporaryDirectory() as folder,
        engine_for(study, examples) as executor,
        SweepProgress(study) as progress,
    ):
        path = Path(folder) / "demo.sqlite"
        return sweep(study, executor, path, examples=examples, depths=depths, progress=progress)


def _print_results(results: Results, seeds: int) -> None:
    """The tuned rates, what the rules make of the shallowest one, the fit, and the rules' errors over all pairs."""
    model, depths = results.study.model, results.depths or {}
    tuned = results.tuned_rates
    if len(tuned) < 2:
        print(f"{model.spec}: fewer than two sizes have an optimum inside the range of rates, so there is no line")
        _print_notes(results)
        return
    measured = {size: _measure(str(model.at(size))) for size in tuned}
    first = next(iter(tuned))
    rules: dict[str, Callable[[int, int], float]] = {
        "copy": lambda a, b: tuned[a],
        "law": lambda a, b: Law().carry(tuned[a], Recipe(depths[a]), Recipe(depths[b])).rate,
        "measured": lambda a, b: Measured().between(tuned[a], measured[a], measured[b]).rate,
    }
    rows = [
        (size, depths[size], rate_text(rate), *(rate_text(rules[rule](first, size)) for rule in ("law", "measured")))
        for size, rate in tuned.items()
    ]
    cells = len(results.records)
    whole = len(model.sizes) * seeds * results.study.search.points
    columns = (model.size_name, "depth", "tuned rate", f"law from {first}", f"measured from {first}")
    print_table(columns, rows, title=f"{model.spec}: {cells} runs, of a grid of {whole}")
    print(f"tuned rates over effective depth: {results.fit('depth')}")
    print(f"tuned rates over {model.size_name}: {results.fit('size')}")
    energies = fit_power_law([depths[s] for s in tuned], [measured[s].rate.rate for s in tuned])
    print(f"rates for persistent energy 1, no training, over effective depth: {energies}")
    errors = ", ".join(f"{name} {_error(rule, tuned):.2f}" for name, rule in rules.items())
    print(f"median error of carrying a tuned rate to another depth, in decades: {errors}")
    unsure = max(found.rate.standard_error or 0.0 for found in measured.values())
    if unsure > LARGE_ERROR:
        print_note(
            f"note: rates are measured to {unsure:.2f} decades only, so narrow: what is carried leans on the law too"
        )
    _print_notes(results)


def _print_notes(results: Results) -> None:
    for note in results.notes:
        print_note(f"note: {note}")
    print()


def _measure(spec: str) -> MeasuredModel:
    given = prepare_measurement(spec, measurement_data("digits", 64), draws=SEEDS)
    with progress_bar():
        (found,) = Measured(SEEDS).measure(Recipe(given.build, given.batches, given.loss_fn))
    return found


def _error(rule: Callable[[int, int], float], tuned: dict[int, float]) -> float:
    sizes: Sequence[int] = list(tuned)
    return median(abs(log10(rule(a, b) / tuned[b])) for a in sizes for b in sizes if a != b)
