"""The command line of RealBench."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from experiments.realbench import data as packed
from experiments.realbench.candidates import candidates_table, readings_table, table
from experiments.realbench.checks import short_checks
from experiments.realbench.constant import fit_constant, held_without
from experiments.realbench.judge import verdict
from experiments.realbench.oracle import sweep_recipe, write_table
from experiments.realbench.readings import write_readings
from experiments.realbench.recipes import RECIPES, RealRecipe, recipe_named
from experiments.realbench.scores import Tuned, read_tuned

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
        swept = smoked(recipe) if smoke else recipe
        done = sweep_recipe(swept, data, work, seconds=left)
        write_table(swept, work, out)
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
    for recipe in chosen(only):
        tuned = read_tuned(results / f"{recipe.name}.csv")
        rate = 10 ** tuned.decades[min(tuned.decades)]
        table = out / f"{recipe.name}.csv"
        if smoke:
            write_readings(smoked(recipe), data, rate, table, device=device, steps=(0, 2), seeds=(0,), multiples=(1.0,))
        else:
            write_readings(recipe, data, rate, table, device=device)
        print(recipe.name, flush=True)


@app.command()
def constant(results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS) -> None:
    """Fit the constant exponent on the design half; the product's numbers and results/realbench/rule.json are these."""
    design = design_half(results)
    fit = fit_constant(design)
    print(json.dumps(asdict(fit) | {"digest": fit.digest}, indent=1))
    held, transfers = held_without(design)
    typer.echo(f"each recipe left out in turn, the interval holds {held} of {transfers} tuned rates", err=True)


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
    found = []
    for recipe in chosen(only):
        if finished(results / f"{recipe.name}.json"):
            found.append(read_tuned(results / f"{recipe.name}.csv", metric))
    if len(found) < 2:
        raise typer.BadParameter("fewer than two of these recipes are finished: python -m experiments.realbench oracle")
    print(table(found, results), end="")


@app.command()
def judge(results: Annotated[Path, typer.Option(help="where tables lie")] = RESULTS) -> None:
    """The verdict on the judged half. The list, the analysis and the rule are committed before this is run."""
    judged = [recipe for recipe in RECIPES if recipe.split == "judged"]
    missing = [recipe.name for recipe in judged if not finished(results / f"{recipe.name}.json")]
    if missing:
        raise typer.BadParameter(f"not finished: {', '.join(missing)}")
    print(verdict([read_tuned(results / f"{recipe.name}.csv") for recipe in judged]), end="")


def finished(facts: Path) -> bool:
    """Is this recipe swept to its end?"""
    return facts.is_file() and bool(json.loads(facts.read_text())["complete"])


def design_half(results: Path) -> list[Tuned]:
    """The tuned rates of the design recipes."""
    return [read_tuned(results / f"{recipe.name}.csv") for recipe in RECIPES if recipe.split == "design"]


def chosen(only: list[str] | None) -> list[RealRecipe]:
    """Recipes by name (variants too) or by half, in the order of the list."""
    found = [recipe for recipe in RECIPES if not only or recipe.split in only]
    return found + [recipe_named(name) for name in only or () if name not in {"design", "judged"}]


def smoked(recipe: RealRecipe) -> RealRecipe:
    """The recipe cut short, to see that it runs."""
    study = recipe.study
    sizes = study.model.sizes[:2]
    training = replace(study.training.for_steps(8), batch=8, precision="fp32")
    search = replace(study.search, kind="grid", points=3, seeds=(0,), low=1e-4, high=1e-2)
    held_out = replace(study.data, validation=32)
    shorter = replace(study, model=replace(study.model, sizes=sizes), training=training, search=search, data=held_out)
    return replace(recipe, name=f"{recipe.name}-smoke", study=shorter)


if __name__ == "__main__":
    app()
