"""The pictures of docs/plots.md, in light and dark: a study's, and those of its models' update energies.

depthlr sweep --model "mlp?width=128" --sizes 3,5,8,13,20 --data digits --steps 100 --batch 64 --search grid \
    --low 1e-3 --high 3 --points 28 --out mlp.sqlite         # two minutes on two CPU cores
python docs/images/make.py mlp.sqlite                        # a minute
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch.nn.functional as F
from matplotlib.figure import Figure

from depthlr import EnergyOverSeeds, update_energy
from depthlr.data import digits_batch, load
from depthlr.present import (
    depth_check,
    energy_profile,
    errors_by_rule,
    loss_landscape,
    scaling,
    seed_floor,
    style,
    transfer_error,
)
from depthlr.study import Models, Study, Training, read_results, task_at

FOLDER = Path(__file__).parent
SEEDS = range(16)
PRE_LN = Study(
    "pre-LN", Models("vit?width=128&heads=4&patch=2&norm=pre", "blocks", (2, 3, 4, 6, 8, 12, 16, 24)), Training(steps=1)
)


def energies(study: Study) -> dict[float, EnergyOverSeeds]:
    """Energies of the study's models at initialization, by effective depth."""
    found = {}
    for size in study.model.sizes:
        task = task_at(study, size, load("digits"))
        model = task.build()
        seeds = []
        for seed in SEEDS:
            task.initialize(model, seed)
            seeds.append(update_energy(model, digits_batch(64, seed), F.cross_entropy))
        found[len(seeds[0].units)] = EnergyOverSeeds(tuple(seeds))
    return found


def main(path: str) -> None:
    results = read_results(path)
    own, pre_ln = energies(results.study), energies(PRE_LN)
    rules = ("copy", "law", "u-mup")
    pictures = {
        "landscape": lambda axes: loss_landscape(results, axes=axes),
        "scaling": lambda axes: scaling(results, axes=axes),
        "rules": lambda axes: scaling(results, axes=axes, rules=("copy", "u-mup"), energies=own),
        "energy": lambda axes: energy_profile(own, axes=axes),
        "errors": lambda axes: transfer_error(
            errors_by_rule(results, rules, own), axes=axes, floor=seed_floor(results)
        ),
        "check": lambda axes: depth_check(own, axes=axes),
        "check-pre-ln": lambda axes: depth_check(pre_ln, axes=axes),
    }
    for name, draw in pictures.items():
        for dark in (False, True):
            with style(dark=dark):
                figure = Figure(layout="constrained")
                draw(figure.subplots())
                figure.savefig(FOLDER / f"{name}{'-dark' * dark}.png")


if __name__ == "__main__":
    main(sys.argv[1])
