"""The command line of RealBench."""

from __future__ import annotations

import json
import signal
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from depthlr.errors import DepthlrError
from depthlr.training.device import default_device
from experiments.realbench import data as packed
from experiments.realbench.archive import unpack as unpack_tables
from experiments.realbench.candidates import candidates_table, readings_table, table
from experiments.realbench.checks import short_checks
from experiments.realbench.constant import fit_constant, held_without
from experiments.realbench.dynamics import DYNAMICS, STEPS, write_dynamics
from experiments.realbench.jobs import do_job, job_named, smallest_rate
from experiments.realbench.judge import verdict
from experiments.realbench.kept import is_finished
from experiments.realbench.oracle import sweep_recipe
from experiments.realbench.page import write_page
from experiments.realbench.plan import PARTS, is_judged_half_finished, names, part_named, plan_table, rising_sizes
from experiments.realbench.readings import write_readings
from experiments.realbench.reasons import COMPARED, change_over_sizes
from experiments.realbench.recipes import RECIPES, RealRecipe, recipe_named, smoked
from experiments.realbench.scores import Tuned, read_tuned
from experiments.realbench.session import Folders, run_next
from experiments.running import run_command

app = typer.Typer(
    help="Rules that carry a learning rate, judged on real recipes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
RESULTS, WORK = Path("results/realbench"), Path("out/realbench")
Folder = Annotated[Path, typer.Option("--data", help="the folder of the packed data")]
Only = Annotated[
    list[str] | None,
    typer.Option(help="design, judged, a recipe, or a variant such as gpt2-adamw-cosine?steps=300 (repeat) [all]"),
]


@app.command()
def data(
    out: Annotated[Path, typer.Option(help="where the packed files go")],
    cifar: Annotated[Path | None, typer.Option(help="the folder of CIFAR-10 and CIFAR-100")] = None,
    wav: Annotated[Path | None, typer.Option(help="the folder of the Free Spoken Digit Dataset's recordings")] = None,
) -> None:
    """Pack the data: text always, images and audio where their folders are named."""
    out.mkdir(parents=True, exist_ok=True)
    digests = {"text": packed.pack_text(out)}
    if cifar is not None:
        digests |= {name: packed.pack_images(name, cifar, out) for name in ("cifar10", "cifar100")}
    if wav is not None:
        digests["spoken"] = packed.pack_spoken(wav, out)
    for name, digest in digests.items():
        print(f"{name:10} {digest} {'as recorded' if digest == packed.DIGESTS[name] else 'NOT as recorded'}")


@app.command(name="list")
def list_recipes() -> None:
    """The recipes and the digests of their studies."""
    for recipe in RECIPES:
        print(f"{recipe.split:7} {recipe.name:24} {recipe.study.digest[:16]}")


@app.command()
def plan(
    results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS,
    jobs: Annotated[bool, typer.Option("--jobs", help="name every job, with its state")] = False,
) -> None:
    """What needs a GPU, what it is expected to take, and what is finished."""
    print(plan_table(results), end="")
    for part in PARTS if jobs else ():
        for job in part.jobs(results):
            print(f"{part.name:12} {job.name:64} {job.expected(results):5.0f} s  {job.runs(results):4} rows", end="  ")
            print(job.state(results))


@app.command(name="next")
def run_plan(
    data: Folder,
    seconds: Annotated[float, typer.Option(help="how long the call may take")] = 560.0,
    at_once: Annotated[int, typer.Option(min=1, help="processes beside each other")] = 5,
    archive: Annotated[Path, typer.Option(help="the file into which new tables are packed")] = Path("realbench.tar.gz"),
    part: Annotated[list[str] | None, typer.Option(help="work on this part of the plan alone (repeat)")] = None,
    results: Annotated[Path, typer.Option(help="where the committed tables lie")] = RESULTS,
    work: Annotated[Path, typer.Option(help="where sweeps, logs and unfinished tables are kept")] = WORK,
    device: Annotated[str | None, typer.Option(help="where measurements are taken [a GPU if there is one]")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="a few steps of everything")] = False,
) -> None:
    """Do what the plan has next, until the time is spent. Call it again to go on."""
    for name in part or ():
        part_named(name)
    folders = Folders(data, results, work, archive)
    failed = run_next(folders, seconds, at_once, parts=part or (), device=device, smoke=smoke)
    print(plan_table(folders.tables), end="")
    if failed:
        raise DepthlrError(f"{len(failed)} jobs failed: their last lines stand above, their logs in {work / 'logs'}.")


@app.command()
def job(
    name: str,
    data: Folder,
    work: Annotated[Path, typer.Option(help="where sweeps are kept; tables below it")] = WORK,
    seconds: Annotated[float | None, typer.Option(help="stop after so long; run again to go on")] = None,
    device: Annotated[str | None, typer.Option(help="where measurements are taken [a GPU if there is one]")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="a few steps of it")] = False,
) -> None:
    """Do one job of the plan; `next` calls this, and interrupts it when the time is up."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell began this in the background
    tables = work / "tables"
    found = job_named(name, tables)
    used = device or default_device()
    done = do_job(found, data, work, tables, seconds=seconds, device=used, smoke=smoke)
    print("finished" if done else "not finished")


@app.command()
def unpack(
    archive: Path,
    results: Annotated[Path, typer.Option(help="where tables go")] = RESULTS,
) -> None:
    """Merge the tables of an archive into the committed ones. It says how many rows came, and nothing of them."""
    for name in unpack_tables(archive, results):
        print(name)
    print(plan_table(results), end="")


@app.command()
def page(
    results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS,
    out: Annotated[Path, typer.Option(help="the page")] = Path("docs/realbench.md"),
) -> None:
    """Write the tables into the page."""
    write_page(results, out)


@app.command()
def picture(
    results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS,
    out: Annotated[Path, typer.Option(help="the PNG")] = Path("docs/images/realbench.png"),
) -> None:
    """Draw the tuned rates of the design recipes, and the errors of rules."""
    from experiments.realbench.picture import draw  # here, because it needs matplotlib

    draw(design_half(results), results, out)


@app.command()
def oracle(
    data: Folder,
    only: Only = None,
    work: Annotated[Path, typer.Option(help="where sweeps are kept")] = WORK,
    out: Annotated[Path, typer.Option(help="where tables go")] = RESULTS,
    seconds: Annotated[float | None, typer.Option(help="stop after so long; run again to go on")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="a few steps at the two smallest sizes")] = False,
) -> None:
    """Sweep recipes for their tuned rates. It says how far it came, and nothing of what it found."""
    start = time.monotonic()
    for recipe in chosen(only):
        left = None if seconds is None else seconds - (time.monotonic() - start)
        swept = replace(smoked(recipe), name=f"{recipe.name}-smoke") if smoke else recipe
        done = sweep_recipe(swept, data, work, out, seconds=left)
        print(f"{swept.name}: {'finished' if done else 'not finished'}, {time.monotonic() - start:.0f} s", flush=True)


@app.command()
def readings(
    data: Folder,
    only: Only = None,
    results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS,
    out: Annotated[Path, typer.Option(help="where readings go")] = RESULTS / "readings",
    device: Annotated[str, typer.Option(help="where models are trained")] = "cuda",
    smoke: Annotated[bool, typer.Option("--smoke", help="one reading at the two smallest sizes")] = False,
) -> None:
    """Read recipes during warm-up, at the tuned rate of their smallest size."""
    recipes = chosen(only)
    check_sealed(recipes, results)
    for recipe in recipes:
        rate = smallest_rate(recipe, results)
        table = out / f"{recipe.name}.csv"
        if smoke:
            write_readings(smoked(recipe), data, rate, table, device=device, steps=(0, 2), seeds=(0,), multiples=(1.0,))
        else:
            write_readings(recipe, data, rate, table, device=device)
        print(recipe.name, flush=True)


@app.command()
def dynamics(
    data: Folder,
    variant: Annotated[str, typer.Argument(help="a design recipe or a variant of one")],
    rate: Annotated[float, typer.Option(help="of every size")],
    out: Annotated[Path, typer.Option(help="the table")],
    at: Annotated[list[int] | None, typer.Option(help="steps at which runs are measured (repeat)")] = None,
    device: Annotated[str | None, typer.Option(help="where models are trained [a GPU if there is one]")] = None,
) -> None:
    """Measure what steps do to weights, outputs and curvature, at one rate; prints the changes over sizes."""
    recipe = recipe_named(variant)
    check_sealed([recipe], RESULTS)
    steps = tuple(at or STEPS)
    write_dynamics(recipe, data, rate, out, seconds=None, device=device or default_device(), steps=steps, seeds=(0,))
    rows = DYNAMICS.read(out)
    for column in COMPARED:
        changes = " ".join(f"{change_over_sizes(rows, column, (step,)):+.2f}" for step in steps)
        print(f"{column:16} {changes}")


@app.command()
def constant(results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS) -> None:
    """Fit the constant exponent on the design half; the product's numbers and results/realbench/rule.json are these."""
    design = design_half(results)
    fit = fit_constant(design)
    print(json.dumps(asdict(fit) | {"digest": fit.digest}, indent=1))
    held, transfers = held_without(design)
    typer.echo(f"each recipe left out in turn, the interval contains {held} of {transfers} tuned rates", err=True)


@app.command()
def candidates(results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS) -> None:
    """Every candidate rule's error on the design half."""
    design = design_half(results)
    print(candidates_table(design, results))
    print(readings_table(design, results), end="")


@app.command()
def checks(results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS) -> None:
    """How often a tenth of the schedule names the best of three rates."""
    found = short_checks(design_half(results), results)
    for one in found:
        words = ("half", "the carried rate", "twice")
        print(f"{one.recipe:24} size {one.size:2}: the check says {words[one.short]}, the full runs {words[one.full]}")
    print(f"right: {sum(one.short == one.full for one in found)} of {len(found)}")
    print(f"the carried rate was best: {sum(one.full == 1 for one in found)} of {len(found)}")


@app.command(name="table")
def print_table(
    only: Only = None,
    metric: Annotated[str, typer.Option(help="the column that judges a run")] = "validation",
    results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS,
) -> None:
    """Tuned exponents, noise floors and every rule's error, of the recipes that are finished."""
    recipes = chosen(only or (None if is_judged_half_finished(results) else ["design"]))
    check_sealed(recipes, results)
    found = []
    for recipe in recipes:
        if is_finished(results / f"{recipe.name}.csv"):
            found.append(read_tuned(results / f"{recipe.name}.csv", metric))
    if len(found) < 2:
        raise typer.BadParameter("fewer than two of these recipes are finished: python -m experiments.realbench oracle")
    print(table(found, results), end="")


@app.command()
def rising(results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS) -> None:
    """Name judged recipes to replace: at the best rate so far their validation loss rises at the end. Nothing else."""
    for name in names("judged"):
        sizes = rising_sizes(name, results)
        where = ", ".join(map(str, sizes))
        print(f"{name}: rises at size {where}, replace it" if sizes else f"{name}: does not rise")


@app.command()
def judge(results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS) -> None:
    """The verdict on the judged half. The list, the analysis and the rule are committed before this is run."""
    judged = [recipe for recipe in RECIPES if recipe.split == "judged"]
    check_sealed(judged, results)
    print(verdict([read_tuned(results / f"{recipe.name}.csv") for recipe in judged], results=results), end="")


def check_sealed(recipes: list[RealRecipe], results: Path) -> None:
    """Refuse to read a judged recipe before all of them are finished: they are evaluated once."""
    if any(recipe.split == "judged" for recipe in recipes) and not is_judged_half_finished(results):
        raise DepthlrError("the judged half is not finished, and is read once, when it is: see the command plan.")


def design_half(results: Path) -> list[Tuned]:
    """The tuned rates of the design recipes."""
    return [read_tuned(results / f"{recipe.name}.csv") for recipe in RECIPES if recipe.split == "design"]


def chosen(only: list[str] | None) -> list[RealRecipe]:
    """Recipes by name (variants too) or by half, in the order of the list."""
    found = [recipe for recipe in RECIPES if not only or recipe.split in only]
    return found + [recipe_named(name) for name in only or () if name not in {"design", "judged"}]


if __name__ == "__main__":
    run_command(app)
