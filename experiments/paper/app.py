"""`python -m experiments.paper [RECIPE ...]`: the paper's tables and figures; run again, it resumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from depthlr import check
from depthlr.cli.app import LiteralHelp
from depthlr.cli.fit import fit_json
from depthlr.cli.options import Json, given_options
from depthlr.cli.output import print_json, print_note, print_table
from depthlr.cli.sweep_progress import SweepProgress
from depthlr.data.sources import data_folder
from depthlr.errors import DepthlrError, report_exit
from depthlr.law.fit import Fit
from depthlr.training.training import CHOICES
from experiments.paper.page.kept import read_energies, read_sweep
from experiments.paper.page.page import write_page
from experiments.paper.page.words import NOTHING, slope
from experiments.paper.recipes import RECIPES
from experiments.paper.running.jobs import Job, chosen, job_of
from experiments.paper.running.run import is_measured, run_job
from experiments.paper.settings import PROTOCOLS, EnergySetting
from experiments.running import Deadline, known_name, precision_or_default

app = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
PAGE = Path("docs/results.md")
OF_RUNS = ("protocol", "seconds", "precision", "at_once", "resume_tables")


@app.command(cls=LiteralHelp)
@report_exit()
def reproduce(
    context: typer.Context,
    recipe: Annotated[list[str] | None, typer.Argument(help=f"{', '.join(RECIPES)} [all]")] = None,
    only: Annotated[list[str] | None, typer.Option(help="of these recipes, this setting alone (repeat)")] = None,
    protocol: Annotated[
        str, typer.Option(help="; ".join(f"{name}: {what}" for name, what in PROTOCOLS.items()))
    ] = "paper",
    data: Annotated[Path | None, typer.Option(help="the folder that holds the publishers' folders")] = None,
    out: Annotated[Path, typer.Option(help="where tables go")] = Path("results/reproduce"),
    work: Annotated[Path, typer.Option(help="where unfinished sweeps are kept")] = Path("out/reproduce"),
    seconds: Annotated[float | None, typer.Option(help="stop after so long; run again to go on")] = None,
    precision: Annotated[str | None, typer.Option(help="fp32, tf32 or bf16 [bf16 on a GPU, else fp32]")] = None,
    at_once: Annotated[
        int,
        typer.Option(min=1, help="runs that share the device: seconds are a share, the plain grid is not timed"),
    ] = 1,
    resume_tables: Annotated[
        bool,
        typer.Option("--resume-tables", help="where --work is gone, go on from the tables in --out"),
    ] = False,
    source: Annotated[
        Path | None, typer.Option("--from", help="run nothing: write the page and pictures from these tables")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="with --from: the page to write [default: docs/results.md]", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Reproduce the paper's tables and figures; run again, it resumes."""
    if source is not None:
        if recipe or only:
            raise DepthlrError("--from writes one page of all recipes: leave the recipes out.")
        if unused := given_options(context, OF_RUNS):
            raise DepthlrError(f"--from runs nothing: leave out {unused[0]}.")
        page = page or PAGE
        written = write_page(source, page)
        if json:
            print_json([str(path) for path in written])
        print_note(f"wrote {page} and {len(written) - 1} pictures")
        return
    if page is not None:
        raise DepthlrError("--page is written from tables: name their folder with --from.")
    known_name("protocol", protocol, PROTOCOLS)
    if precision is not None:
        check.one_of("--precision", precision, CHOICES["precision"])
    until = Deadline.after(seconds)
    used = precision_or_default(precision)
    place = data_folder() if data is None else data.expanduser()
    jobs = [job_of(s, protocol, used, data=place, work=work, out=out) for s in chosen(recipe or [], only or [])]
    jobs = [replace(job, at_once=at_once, resume_tables=resume_tables) for job in jobs]
    outcomes = _run(jobs, until, work)
    _print(outcomes, json)
    _raise_failures(outcomes)


@dataclass(frozen=True)
class Outcome:
    """What became of a job, and its slopes so far, over the paper's depth and over total depth."""

    job: Job
    state: Literal["finished", "unfinished", "failed"]
    fits: Mapping[str, Fit | None]
    error: str = ""  # the sentence of one that failed

    @property
    def name(self) -> str:
        return self.job.setting.name


def _run(jobs: Sequence[Job], until: Deadline, work: Path) -> list[Outcome]:
    """Run them one after the other until the time is spent; one that fails keeps none of the others from it."""
    outcomes: list[Outcome] = []
    spent = False
    for job in jobs:
        try:
            left = spent and not is_measured(job)
            if not spent:
                print_note(f"{job.out.recipe} {job.setting.name}, {job.out.protocol}")
                spent = left = not run_job(job, until, SweepProgress)
            outcomes.append(Outcome(job, "unfinished" if left else "finished", _fits(job)))
        except KeyboardInterrupt:
            print_note(f"stopped; what had finished is kept in {work}: run the same again to go on")
            raise typer.Exit(130) from None
        except DepthlrError as error:
            print_note(f"{job.setting.name} failed: {error}")
            outcomes.append(Outcome(job, "failed", {"paper": None, "depth": None}, str(error)))
    if spent:
        names = ", ".join(one.name for one in outcomes if one.state == "unfinished")
        print_note(f"the time is spent; run the same again to go on with {names}")
    return outcomes


def _print(outcomes: Sequence[Outcome], json: bool) -> None:
    """How far each is, with its slopes."""
    if json:
        print_json(
            {
                "finished": [one.name for one in outcomes if one.state == "finished"],
                "unfinished": [one.name for one in outcomes if one.state == "unfinished"],
                "failed": {one.name: one.error for one in outcomes if one.state == "failed"},
                "slopes": {
                    one.name: {over: fit_json(fit, {}) for over, fit in one.fits.items() if fit} for one in outcomes
                },
            }
        )
        return
    rows = []
    for one in outcomes:
        setting = one.job.setting
        printed = str(setting.printed[0]) if setting.printed else NOTHING
        rows.append((setting.title, printed, *map(slope, one.fits.values()), one.state))
    print_table(("setting", "paper", "over its depth", "over total depth", ""), rows)


def _raise_failures(outcomes: Sequence[Outcome]) -> None:
    """All failures at the end, a cause that several share once."""
    names: dict[str, list[str]] = {}
    for one in outcomes:
        if one.state == "failed":
            names.setdefault(one.error.removesuffix("."), []).append(one.name)
    if names:
        causes = "; ".join(f"{', '.join(shared)} ({cause})" for cause, shared in names.items())
        count = sum(map(len, names.values()))
        raise DepthlrError(f"{count} of {len(outcomes)} settings failed, {causes}: mend that, and run the same again.")


def _fits(job: Job) -> dict[str, Fit | None]:
    if not job.out.file("json").is_file():
        return {"paper": None, "depth": None}
    if isinstance(job.setting, EnergySetting):
        energy = read_energies(job.setting, job.out).fit()
        return {"paper": energy, "depth": energy}
    sweep = read_sweep(job.setting, job.out)
    return {"paper": sweep.fit(job.setting.label), "depth": sweep.fit("depth")}
