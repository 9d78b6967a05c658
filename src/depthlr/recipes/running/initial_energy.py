"""Update energies of a study's models at initialisation, on its own data, under several seeds."""

from __future__ import annotations

from collections.abc import Sequence

from depthlr.data.examples import Examples
from depthlr.energy.measure import update_energy
from depthlr.energy.seeds import EnergyOverSeeds
from depthlr.study.description import Study
from depthlr.study.task import task_at


def initial_energies(study: Study, size: int, examples: Examples, seeds: Sequence[int], device: str) -> EnergyOverSeeds:
    """Each seed draws an initialisation and a first batch, as a cell of that seed does."""
    task = task_at(study, size, examples)
    model = task.build()
    found = []
    for seed in seeds:
        task.initialise(model.cpu(), seed)
        batch = examples.batch(task.order(seed)[0])
        found.append(update_energy(model.to(device), batch, task.loss_fn, study.training.optimizer))
    return EnergyOverSeeds(tuple(found))
