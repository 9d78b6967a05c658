"""Running a job: a sweep or a measurement. One whose work is gone, as it is in a clone, may go on from its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from depthlr.errors import DepthlrError
from depthlr.study.description import difference
from depthlr.study.results import read_results
from depthlr.study.store import open_store
from experiments.paper.running.carried import PLAN, has_carried
from experiments.paper.running.energies import all_measured, run_energies
from experiments.paper.running.jobs import Job
from experiments.paper.running.sweep import Watch, run_sweep, unwatched
from experiments.paper.running.tables import CARRIED, CELLS, ENERGIES, read_rows, read_setting, record_of
from experiments.paper.settings import EnergySetting
from experiments.running import PROVENANCE, Deadline, Facts
from experiments.tables import make_folder, write_table

Rows = Sequence[Mapping[str, Any]]


def run_job(job: Job, until: Deadline, watch: Watch = unwatched) -> bool:
    """Go on with a job, and write its tables, finished or not. True when nothing of it is left to do.

    Args:
        job: what to run.
        until: when to stop; what has finished is kept.
        watch: opens the progress of a sweep.
    """
    if job.resume_tables:
        resume_tables(job)
    return run_energies(job, until) if isinstance(job.setting, EnergySetting) else run_sweep(job, until, watch)


def is_measured(job: Job) -> bool:
    """Is all that was to be measured? A plain grid may still have to be timed.

    Args:
        job: the job.
    """
    if isinstance(job.setting, EnergySetting):
        return all_measured(job)
    if not job.store.is_file():
        return False
    results = read_results(job.store)
    carried = job.source is None or has_carried(job.out.file("carried.csv"), results, job.source)
    return results.complete and carried


def resume_tables(job: Job) -> None:
    """Lay a job's work out anew from its tables. Work that holds as much is left as it is, and less is refused.

    Args:
        job: the job.
    """
    if not job.out.file("json").is_file():
        return
    energies = isinstance(job.setting, EnergySetting)
    kept = job.energies if energies else job.store
    written, rows = read_setting(job.out, ENERGIES if energies else CELLS)
    there = _count(kept, energies)
    if there >= len(rows):
        return
    if there:
        raise DepthlrError(
            f"{kept} has {there} rows, fewer than the {len(rows)} of {job.out.file('csv')}: delete the first to go on "
            "from the second, or leave out --resume-tables."
        )
    _check_same(job, written)
    carried = job.out.file("carried.csv")
    carried_rows = read_rows(carried, CARRIED) if carried.is_file() and not energies else []
    make_folder(kept.parent)
    _facts(written).write(job.facts)
    if carried_rows:
        plan = {tuple(row[column] for column in PLAN): row for row in carried_rows}  # one a seed in the table
        write_table(job.work.file("plan.csv"), PLAN, plan.values())
        _fill(job.work.file("carried.sqlite"), job, written, carried_rows)
    if energies:  # last, since it is by this file that work is seen to be there
        write_table(kept, ENERGIES, rows)
    else:
        _fill(kept, job, written, rows)


def _count(kept: Path, energies: bool) -> int:
    """Rows of the work that is there; a first call that was stopped leaves a store without any."""
    if not kept.is_file():
        return 0
    return len(read_rows(kept, ENERGIES) if energies else read_results(kept).records)


def _check_same(job: Job, written: Mapping[str, Any]) -> None:
    """Cells of another study, or of other data, are not these."""
    study, file = written["study"], job.out.file("json")
    if study.digest != job.study.digest:
        changes = "; ".join(line for line in difference(study, job.study) if not line.startswith("data.folder:"))
        raise DepthlrError(f"{file} is of another study ({changes}): leave out --resume-tables to measure it anew.")
    if written["data"]["digest"] != job.examples().digest:
        raise DepthlrError(f"{file} is of other data: name the folder of those, or leave out --resume-tables.")


def _facts(written: Mapping[str, Any]) -> Facts:
    return Facts(
        study=written["study"].digest,
        provenance={name: written[name] for name in PROVENANCE},
        sweep_seconds=written["sweep_seconds"],
        carried_seconds=written["carried_seconds"] or 0.0,
        plain_grid_seconds=written["plain_grid_seconds"],
        plain_grid_is=written["plain_grid_is"],
        at_once=written["at_once"],
    )


def _fill(store: Path, job: Job, written: Mapping[str, Any], rows: Rows) -> None:
    """A store of these rows, whole or not at all."""
    depths = {row["size"]: row["depth"] for row in rows}
    part = store.with_suffix(".part.sqlite")
    part.unlink(missing_ok=True)
    with open_store(part, job.study, data_digest=written["data"]["digest"], depths=depths) as kept:
        for environment in written["environments"]:
            kept.record_environment(environment)
        for row in rows:
            kept.put(record_of(row))
    part.replace(store)
