"""What the first step does to a study's models, on its own data, under several seeds."""

from __future__ import annotations

from collections.abc import Sequence

from depthlr.data.examples import Examples
from depthlr.energy.batches import GRADIENT_BATCHES
from depthlr.energy.energy import EnergyOverSeeds, update_energy
from depthlr.energy.persistent import DrawnRate, persistent_energy, rate_over_draws
from depthlr.study.description import Study
from depthlr.study.tasks import epoch_steps, task_at


def initial_energies(study: Study, size: int, examples: Examples, seeds: Sequence[int], device: str) -> EnergyOverSeeds:
    """Each seed draws an initialization and a first batch, as a cell of that seed does."""
    task = task_at(study, size, examples)
    model = task.build()
    found = []
    for seed in seeds:
        task.initialize(model.cpu(), seed)
        batch = examples.batch(task.order(seed)[0])
        found.append(update_energy(model.to(device), batch, task.loss_fn, study.training.optimizer))
    return EnergyOverSeeds(tuple(found))


def initial_measured_rate(study: Study, size: int, examples: Examples, seeds: Sequence[int], device: str) -> DrawnRate:
    """Each seed draws an initialization, and the first batches of a cell of that seed, of one epoch if it has three."""
    task = task_at(study, size, examples)
    count = min(GRADIENT_BATCHES + 1, max(3, epoch_steps(study, examples)))
    model = task.build()
    found = []
    for seed in seeds:
        task.initialize(model.cpu(), seed)
        batches = [examples.batch(indices) for indices in task.order(seed)[:count]]
        found.append(persistent_energy(model.to(device), batches, task.loss_fn, study.training.optimizer))
    return rate_over_draws(found)
