"""A setting whose work is gone, as it is in a clone, goes on from its tables: cells, carried rates, times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from depthlr.errors import DepthlrError
from depthlr.recipes.columns import read_rows
from depthlr.recipes.energy_setting import EnergySetting
from depthlr.recipes.running.carried import COLUMNS as CARRIED
from depthlr.recipes.running.carried import PLAN
from depthlr.recipes.running.energies import ENERGIES
from depthlr.recipes.running.facts import Facts
from depthlr.recipes.running.job import Job
from depthlr.recipes.running.provenance import PROVENANCE
from depthlr.recipes.running.written import CELLS, read_written, record_of
from depthlr.recipes.table import write_table
from depthlr.study.description import difference
from depthlr.study.store import open_store


def resume_tables(job: Job) -> None:
    """Lay a job's work out anew from its tables; work that is there is left as it is."""
    energies = isinstance(job.setting, EnergySetting)
    kept = job.work.file("energies.csv") if energies else job.store
    if kept.exists() or not job.out.file("json").is_file():
        return
    written, rows = read_written(job.out, ENERGIES if energies else CELLS)
    _check_same(job, written)
    kept.parent.mkdir(parents=True, exist_ok=True)
    if energies:
        write_table(kept, ENERGIES, rows)
    else:
        _fill(kept, job, written, rows)
        _lay_out_carried(job, written)
    Facts(
        provenance={name: written[name] for name in PROVENANCE},
        sweep_seconds=written["sweep_seconds"],
        carried_seconds=written["carried_seconds"] or 0.0,
        plain_grid_seconds=written["plain_grid_seconds"],
        plain_grid_is=written["plain_grid_is"],
        at_once=written["at_once"],
    ).write(job.facts)


def _check_same(job: Job, written: Mapping[str, Any]) -> None:
    """Cells of another study, or of other data, are not these."""
    study, file = written["study"], job.out.file("json")
    if study.digest != job.study.digest:
        changes = "; ".join(line for line in difference(study, job.study) if not line.startswith("data.folder:"))
        raise DepthlrError(f"{file} is of another study ({changes}): leave out --resume-tables to measure it anew.")
    if written["data"]["digest"] != job.examples().digest:
        raise DepthlrError(f"{file} is of other data: name the folder of those, or leave out --resume-tables.")


def _fill(store: Path, job: Job, written: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    depths = {row["size"]: row["depth"] for row in rows}
    with open_store(store, job.study, data_digest=written["data"]["digest"], depths=depths) as kept:
        for environment in written["environments"]:
            kept.ran_on(environment)
        for row in rows:
            kept.put(record_of(row))


def _lay_out_carried(job: Job, written: Mapping[str, Any]) -> None:
    """The rates that were carried, and what they came to."""
    if not job.out.file("carried.csv").is_file():
        return
    rows = read_rows(job.out.file("carried.csv"), CARRIED)
    plan = {tuple(row[column] for column in PLAN): row for row in rows}  # one a seed in the table
    _fill(job.work.file("carried.sqlite"), job, written, rows)
    write_table(job.work.file("plan.csv"), PLAN, plan.values())
