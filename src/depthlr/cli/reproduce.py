"""`depthlr reproduce [RECIPE ...]`: the paper's tables and figures, its numbers beside ours. Run again, it resumes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from depthlr.cli.depth import Json
from depthlr.cli.fit import fit_json
from depthlr.cli.output import print_json, print_note, print_table
from depthlr.cli.sweep_progress import SweepProgress
from depthlr.data.sources import data_folder
from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit
from depthlr.recipes import RECIPES
from depthlr.recipes.energy_setting import EnergySetting
from depthlr.recipes.page.kept import read_energies, read_sweep
from depthlr.recipes.page.words import NOTHING, slope
from depthlr.recipes.page.write import write_page
from depthlr.recipes.protocol import PROTOCOLS
from depthlr.recipes.running.deadline import Deadline
from depthlr.recipes.running.job import Job
from depthlr.recipes.running.jobs import chosen, job_of, run_job
from depthlr.recipes.running.provenance import device


def reproduce(
    recipe: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(RECIPES)} [all]")] = None,
    only: Annotated[list[str] | None, typer.Option(help="of these recipes, this setting alone (repeat)")] = None,
    protocol: Annotated[str, typer.Option(help=", ".join(PROTOCOLS))] = "paper",
    data: Annotated[Path | None, typer.Option(help="the folder that holds the publishers' folders")] = None,
    out: Annotated[Path, typer.Option(help="where tables go")] = Path("results/reproduce"),
    work: Annotated[Path, typer.Option(help="where unfinished sweeps are kept")] = Path("out/reproduce"),
    seconds: Annotated[float | None, typer.Option(help="stop after so long; run again to go on")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, tf32 or bf16 [bf16 on a GPU, else fp32]")] = None,
    source: Annotated[
        Path | None, typer.Option("--from", help="run nothing: write the page and pictures from these tables")
    ] = None,
    page: Annotated[Path, typer.Option(help="with --from: the page to write")] = Path("docs/results.md"),
    json: Json = False,
) -> None:
    """Reproduce the paper's tables and figures; run again, it resumes."""
    if source is not None:
        if recipe or only:
            raise DepthlrError("--from writes one page of all recipes: leave the recipes out.")
        written = write_page(source, page)
        if json:
            print_json([str(path) for path in written])
        print_note(f"wrote {page} and {len(written) - 1} pictures")
        return
    until = Deadline.after(seconds)
    used = precision or ("bf16" if device() == "cuda" else "fp32")
    place = data_folder() if data is None else data.expanduser()
    jobs = [job_of(s, protocol, used, data=place, work=work, out=out) for s in chosen(recipe or [], only or [])]
    _print(jobs, _run(jobs, until, work), json)


def _run(jobs: Sequence[Job], until: Deadline, work: Path) -> list[Job]:
    """Run them one after the other; those that are left when the time is spent."""
    for index, job in enumerate(jobs):
        print_note(f"{job.out.recipe} {job.setting.name}, {job.out.protocol}")
        try:
            finished = run_job(job, until, SweepProgress)
        except KeyboardInterrupt:
            print_note(f"stopped; what had finished is kept in {work}: run the same again to go on")
            raise typer.Exit(130) from None
        if not finished:
            left = [*jobs[index:]]
            names = ", ".join(one.setting.name for one in left)
            print_note(f"the time is spent; run the same again to go on with {names}")
            return left
    return []


def _print(jobs: Sequence[Job], left: Sequence[Job], json: bool) -> None:
    """The slopes so far, over the paper's depth and over total depth."""
    found = {job.setting.name: _fits(job) for job in jobs}
    if json:
        print_json(
            {
                "finished": [job.setting.name for job in jobs if job not in left],
                "unfinished": [job.setting.name for job in left],
                "slopes": {
                    name: {over: fit_json(fit, {}) for over, fit in fits.items() if fit} for name, fits in found.items()
                },
            }
        )
        return
    rows = []
    for job in jobs:
        printed = str(job.setting.printed[0]) if job.setting.printed else NOTHING
        fits = [slope(fit) for fit in found[job.setting.name].values()]
        rows.append((job.setting.title, printed, *fits, "unfinished" if job in left else "finished"))
    print_table(("setting", "paper", "over its depth", "over total depth", ""), rows)


def _fits(job: Job) -> dict[str, Fit | None]:
    if not job.out.file("json").is_file():
        return {"paper": None, "depth": None}
    if isinstance(job.setting, EnergySetting):
        energy = read_energies(job.setting, job.out).fit()
        return {"paper": energy, "depth": energy}
    sweep = read_sweep(job.setting, job.out)
    return {"paper": sweep.fit(job.setting.label), "depth": sweep.fit("depth")}
