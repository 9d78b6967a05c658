"""Running a setting without training: energies by size and seed, each size kept as soon as it is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from depthlr.data.examples import Examples
from depthlr.energy.batches import GRADIENT_BATCHES
from depthlr.energy.energy import EnergyOverSeeds, update_energy
from depthlr.energy.persistent import DrawnRate, persistent_energy, rate_over_draws
from depthlr.errors import DepthlrError
from depthlr.study.description import Study
from depthlr.study.tasks import epoch_steps, task_at
from depthlr.training.device import default_device
from depthlr.training.task import Task
from experiments.paper.running.jobs import Job
from experiments.paper.running.tables import ENERGIES, read_rows, write_setting
from experiments.paper.settings import ENERGY_SEEDS
from experiments.running import Deadline, Facts, OutOfTime, provenance, read_facts
from experiments.tables import damaged, write_table


def run_energies(job: Job, until: Deadline) -> bool:
    """Measure what is left, and write the tables. True when nothing is left.

    Args:
        job: what to measure.
        until: when to stop; sizes that are measured are kept.
    """
    examples, facts = job.examples(), read_facts(job.facts)
    kept = job.energies
    rows = read_rows(kept, ENERGIES) if kept.is_file() else []
    known = _sizes(rows)
    seeds = range(ENERGY_SEEDS[job.out.protocol])
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


def initial_energies(study: Study, size: int, examples: Examples, seeds: Sequence[int], device: str) -> EnergyOverSeeds:
    """What the first step does to a model of a study. Each seed draws an initialization and a first batch.

    Args:
        study: the study.
        size: of the model.
        examples: the data.
        seeds: Each draws what a cell of that seed draws.
        device: where to measure.
    """
    found = [
        update_energy(model, batches[0], task.loss_fn, study.training.optimizer)
        for task, model, batches in _drawn(study, size, examples, seeds, device, 1)
    ]
    return EnergyOverSeeds(tuple(found))


def initial_measured_rate(study: Study, size: int, examples: Examples, seeds: Sequence[int], device: str) -> DrawnRate:
    """What the rule `measured` looks at. Each seed draws an initialization and its first batches.

    Args:
        study: the study.
        size: of the model.
        examples: the data; the batches are those of one epoch, if it has three.
        seeds: Each draws what a cell of that seed draws.
        device: where to measure.
    """
    count = min(GRADIENT_BATCHES + 1, max(3, epoch_steps(study, examples)))
    return rate_over_draws(
        [
            persistent_energy(model, batches, task.loss_fn, study.training.optimizer)
            for task, model, batches in _drawn(study, size, examples, seeds, device, count)
        ]
    )


def _drawn(
    study: Study, size: int, examples: Examples, seeds: Sequence[int], device: str, count: int
) -> Iterator[tuple[Task, nn.Module, list[tuple[Tensor, Tensor]]]]:
    """One model in each seed's initialization, and the first batches of a cell of that seed."""
    task = task_at(study, size, examples)
    model = task.build()
    for seed in seeds:
        task.initialize(model.cpu(), seed)
        yield task, model.to(device), [examples.batch(indices) for indices in task.order(seed)[:count]]


def _rows(size: int, found: EnergyOverSeeds) -> list[dict[str, Any]]:
    depth = len(found.units)
    return [
        dict(zip(ENERGIES, (size, depth, seed, energy.mean, energy.readout, energy.loss), strict=True))
        for seed, energy in enumerate(found.energies)
    ]


def _write(job: Job, rows: list[dict[str, Any]], facts: Facts) -> None:
    if not facts.provenance:
        return
    content = {
        **facts.provenance,
        "at_once": facts.at_once,  # jobs that shared the device; seconds are this one's share
        "sweep_seconds": round(facts.sweep_seconds, 2),
        "seeds": ENERGY_SEEDS[job.out.protocol],
        "study": {key: table for key, table in job.study.to_dict().items() if key != "search"},  # there is none
    }
    write_setting(job.out, ENERGIES, rows, content, complete=_sizes(rows) == set(job.study.model.sizes))


def all_measured(job: Job) -> bool:
    """Are the energies of every size kept?

    Args:
        job: what is measured.
    """
    return job.energies.is_file() and _sizes(read_rows(job.energies, ENERGIES)) == set(job.study.model.sizes)


def _sizes(rows: Sequence[Mapping[str, Any]]) -> set[int]:
    return {row["size"] for row in rows}
