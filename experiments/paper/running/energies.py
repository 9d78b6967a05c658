"""Running a setting without training: energies by size and seed, each size kept as soon as it is measured."""

from __future__ import annotations

from typing import Any

from depthlr.data.examples import Examples
from depthlr.energy.energy import EnergyOverSeeds
from depthlr.errors import DepthlrError
from depthlr.training.device import default_device
from experiments.paper.columns import read_rows
from experiments.paper.energy_setting import SEEDS
from experiments.paper.running.initial_energy import initial_energies
from experiments.paper.running.job import Job
from experiments.paper.running.written import is_fuller
from experiments.running import Deadline, Facts, OutOfTime, provenance, read_facts
from experiments.tables import damaged, write_json, write_table

ENERGIES = ("size", "depth", "seed", "mean", "readout", "loss")


def run_energies(job: Job, until: Deadline) -> bool:
    """Measure what is left, and write the tables; True when nothing is left."""
    examples, facts = job.examples(), read_facts(job.facts)
    kept = job.energies
    rows = read_rows(kept, ENERGIES) if kept.is_file() else []
    known = {row["size"] for row in rows}
    seeds = range(SEEDS[job.out.protocol])
    if [row["seed"] for row in rows] != [*seeds] * len(known):  # sizes are kept whole
        raise damaged(kept, f"lacks some of the {len(seeds)} seeds of a size")
    if rows:
        _check_same(job, facts, examples)
    missing = [size for size in job.study.model.sizes if size not in known]
    if missing:
        facts.study = job.study.digest
        facts.provenance = provenance("fp32", examples)
    try:
        for size in missing:
            until.check()
            with facts.timing("sweep_seconds", job.facts, job.at_once) as done:
                rows += _rows(size, initial_energies(job.study, size, examples, seeds, default_device()))
                done()
            write_table(kept, ENERGIES, rows)
    except OutOfTime:
        return False
    finally:
        if rows:
            _write(job, rows, facts)
    return True


def _check_same(job: Job, facts: Facts, examples: Examples) -> None:
    """Energies of another study, or of other data, are not these."""
    data = facts.provenance.get("data", {}).get("digest", examples.digest)
    if facts.study not in (None, job.study.digest) or data != examples.digest:
        raise DepthlrError(f"{job.energies} is of another study or of other data: delete it to measure anew.")


def all_measured(job: Job) -> bool:
    """Are the energies of every size kept?"""
    if not job.energies.is_file():
        return False
    return {row["size"] for row in read_rows(job.energies, ENERGIES)} == set(job.study.model.sizes)


def _rows(size: int, found: EnergyOverSeeds) -> list[dict[str, Any]]:
    depth = len(found.units)
    return [
        dict(zip(ENERGIES, (size, depth, seed, energy.mean, energy.readout, energy.loss), strict=True))
        for seed, energy in enumerate(found.energies)
    ]


def _write(job: Job, rows: list[dict[str, Any]], facts: Facts) -> None:
    complete = {row["size"] for row in rows} == set(job.study.model.sizes)
    if not facts.provenance or (not complete and is_fuller(job.out, len(rows))):
        return
    content = {
        "recipe": job.out.recipe,
        "setting": job.out.setting,
        "protocol": job.out.protocol,
        "complete": complete,
        "cells": len(rows),
        **facts.provenance,
        "at_once": facts.at_once,  # jobs that shared the device; seconds are this one's share
        "sweep_seconds": round(facts.sweep_seconds, 2),
        "seeds": SEEDS[job.out.protocol],
        "study": {key: table for key, table in job.study.to_dict().items() if key != "search"},  # there is none
    }
    write_table(job.out.file("csv"), ENERGIES, rows)
    write_json(job.out.file("json"), content)
