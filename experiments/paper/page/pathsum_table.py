"""ResNet optima against the law, PathSum and measured energies, all starting from the shallowest tuned rate."""

from __future__ import annotations

import math
from statistics import median

from depthlr.law.rules import pathsum_transfer
from depthlr.transfer.rules import Law, Recipe
from experiments.pages import markdown_table
from experiments.paper.main import CIFAR10_RESNET
from experiments.paper.page.kept import Kept
from experiments.paper.page.words import NOT_YET, NOTHING, decades, rate
from experiments.paper.pathsum import RESNET_ENERGY

PLAIN = 2  # stem and head


def pathsum_rates(kept: Kept) -> dict[str, dict[int, float]]:
    """By rule, then blocks; `tuned` first, `AM-μP` where energies are kept."""
    sweep, energies = kept.sweeps.get(CIFAR10_RESNET.name), kept.energies.get(RESNET_ENERGY.name)
    if sweep is None or not (tuned := sweep.results.tuned_rates):
        return {}
    first, depths = min(tuned), sweep.results.depths or {}
    start = tuned[first]
    found = {
        "tuned": tuned,
        "law": {size: Law().carry(start, Recipe(depths[first]), Recipe(depths[size])).rate for size in tuned},
        "PathSum": {size: pathsum_transfer(start, source=(PLAIN, first), target=(PLAIN, size)) for size in tuned},
    }
    if energies is not None:
        middle = {
            size: median(mean for mean, at in zip(energies.means, energies.sizes, strict=True) if at == size)
            for size in set(energies.sizes)
        }
        if set(tuned) <= set(middle):
            found["AM-μP"] = {size: start * (middle[first] / middle[size]) ** 0.5 for size in tuned}
    return found


def pathsum_table(kept: Kept) -> str:
    found = pathsum_rates(kept)
    if not found:
        return f"The comparison is {NOT_YET}."
    tuned, first = found["tuned"], min(found["tuned"])
    rows = [[str(size), *(rate(rates.get(size)) for rates in found.values())] for size in sorted(tuned)]
    errors = [NOTHING]
    for name, rates in found.items():
        if name != "tuned":
            missed = [abs(math.log10(rates[size] / tuned[size])) for size in tuned if size != first]
            errors.append(decades(median(missed)) if missed else NOTHING)
    lines = [*rows, ["median error, decades", *errors]]
    return f"Rates carried from {first} blocks:\n\n{markdown_table(('blocks', *found), lines)}"
