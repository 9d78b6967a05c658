"""What stands under a recipe on the page: its sweeps in full, and tables of the audio, PathSum and theory recipes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from depthlr.init.gating import gating_factor
from depthlr.law.curve import geometric
from depthlr.law.rules import LAW_EXPONENT, pathsum_transfer
from depthlr.transfer.rules import Law
from depthlr.transfer.rules import Recipe as RuleRecipe
from experiments.pages import markdown_table
from experiments.paper.page.kept import LEARNT, Energies, Kept, Sweep
from experiments.paper.page.words import NOT_YET, NOTHING, against, decades, r2, rate, slope
from experiments.paper.recipes import AUDIO_CNN, AUDIO_RATES, AUDIO_TRANSFORMER, CIFAR10_RESNET, RESNET_ENERGY
from experiments.paper.settings import EnergySetting, Recipe, Setting

SLOPES = ("setting", "paper", "over layers or blocks", "R²", "over total depth", "R²", "left out", "cells", "protocol")
EXPONENTS = ("model", "depths", "exponent of the rate for mean energy 1", "R²", "−3/2", "for readout energy 1", "seeds")
REMARK = (
    "Embedded digits, batch 64, SGD. "
    "Where deeper ones vanish, the decay is exponential, and no power law fits. Over 5 to 49 units the exponents of "
    "MLP and CNN are near −3/2 ([theory](theory.md#what-the-energy-at-initialization-really-does))."
)
PLAIN = 2  # stem and head


def recipe_table(recipe: Recipe, kept: Kept) -> str:
    """Slopes, then the tuned rates they go through, then what the paper leaves open and how it was filled."""
    rows: list[list[str]] = []
    found: list[Sweep] = []
    for setting in recipe.slopes:
        sweeps = kept.protocols(setting)
        rows += [_slopes_row(recipe, setting, sweep) for sweep in sweeps] or [_slopes_row(recipe, setting, None)]
        found += sweeps
    notes = [*_mixed(found), *_unfinished(found), *_unlearnt(found), *_notes(recipe.slopes)]
    return "\n\n".join([markdown_table(SLOPES, rows), *([_rates(found)] if found else []), *notes])


def _slopes_row(recipe: Recipe, setting: Setting, sweep: Sweep | None) -> list[str]:
    printed = recipe.printed(setting)
    stated = NOTHING if printed is None else str(printed)
    if printed is not None and printed.r2 is not None:
        stated += f" (R² {printed.r2:.3f})"
    if sweep is None:
        return [setting.title, stated, NOT_YET, *[NOTHING] * 6]
    size, depth = sweep.fit("size"), sweep.fit("depth")
    inside = sum(curve.optimum is not None and not curve.optimum.at_edge for curve in sweep.learnt.curves)
    curves = len(sweep.results.curves)
    return [
        setting.title,
        stated,
        slope(size),
        r2(size),
        slope(depth),
        r2(depth),
        f"{curves - inside} of {curves}",
        str(sweep.facts["cells"]),
        sweep.protocol + ("" if sweep.facts["complete"] else ", unfinished"),
    ]


def _rates(sweeps: Sequence[Sweep]) -> str:
    """Tuned rates by size, folded away."""
    sizes = sorted({size for sweep in sweeps for size in sweep.results.study.model.sizes})
    rows = []
    for sweep in sweeps:
        tuned = sweep.results.tuned_rates
        texts = {
            size: f"({rate(tuned.get(size))})" if size in sweep.unlearnt else rate(tuned.get(size)) for size in sizes
        }
        rows.append([f"{sweep.setting.title}, {sweep.protocol}", *texts.values()])
    bracketed = any(sweep.unlearnt for sweep in sweeps)
    summary = "Tuned rates by layers or blocks: geometric means of the seeds’ optima inside the grid"
    summary += "; in brackets, of sizes that hardly do better than guessing" if bracketed else ""
    return (
        f"<details><summary>{summary}</summary>\n\n{markdown_table(('setting', *map(str, sizes)), rows)}\n\n</details>"
    )


def _mixed(sweeps: Sequence[Sweep]) -> list[str]:
    """Fewer steps change a slope too, so a difference says nothing where no protocol was common to all."""
    protocols: dict[str, set[str]] = {}
    for sweep in sweeps:
        protocols.setdefault(sweep.setting.name, set()).add(sweep.protocol)
    if not protocols or set.intersection(*protocols.values()):
        return []
    return ["- Not all were trained under one protocol. Do not compare slopes and rates of different protocols."]


def _unfinished(sweeps: Sequence[Sweep]) -> list[str]:
    """How far those are that count for nothing yet."""
    lines = [
        f"- {sweep.setting.title}, {sweep.protocol}, is unfinished. Its slope is over {sweep.setting.vary} up to "
        f"{max(reached)}. It counts in no verdict, median or picture."
        for sweep in sweeps
        if not sweep.facts["complete"] and (reached := sweep.results.tuned_rates)
    ]
    return ["\n".join(lines)] if lines else []


def _unlearnt(sweeps: Sequence[Sweep]) -> list[str]:
    """What fits leave out, since a best rate that changes nothing is noise."""
    lines = [
        f"- {sweep.setting.title}, {sweep.protocol}: {_list(sweep.unlearnt)} {sweep.setting.vary}"
        for sweep in sweeps
        if sweep.unlearnt
    ]
    said = (
        "The fits leave out sizes that hardly do better than guessing. The middle seed’s least loss there is less than "
        f"{100 * LEARNT:g} % below that of guessing:"
    )
    return ["\n".join([said, "", *lines])] if lines else []


def _list(sizes: Sequence[int]) -> str:
    *most, last = map(str, sizes)
    return f"{', '.join(most)} and {last}" if most else last


def _notes(settings: Sequence[Setting]) -> list[str]:
    """What the paper leaves open, said once for all settings that share it."""
    titles: dict[str, list[str]] = {}
    for setting in settings:
        if setting.note:
            titles.setdefault(setting.note, []).append(setting.title)
    lines = [f"- {'; '.join(named)}: {note}." for note, named in titles.items()]
    return ["\n".join(["Notes on the settings:", "", *lines])] if lines else []


def offsets(recipe: Recipe, kept: Kept) -> str:
    """A line a setting and protocol that the first setting, the baseline, was trained under too."""
    baseline, *others = recipe.slopes
    lines = []
    for setting in others:
        for sweep in kept.complete(setting):
            beside = next((one for one in kept.complete(baseline) if one.protocol == sweep.protocol), None)
            if beside is not None and (ratios := rate_ratios(sweep, beside)):
                least, most = min(ratios.values()), max(ratios.values())
                lines.append(
                    f"- {setting.title}: tuned rates are {geometric(list(ratios.values())):.2g} of the baseline’s "
                    f"({least:.2g} to {most:.2g} at {len(ratios)} sizes, {sweep.protocol})."
                )
    return "\n".join(["Against the baseline:", "", *lines]) if lines else ""


def rate_ratios(sweep: Sweep, beside: Sweep) -> dict[int, float]:
    """Tuned rate over the other's, at sizes where both learn."""
    ours, theirs = sweep.learnt.tuned_rates, beside.learnt.tuned_rates
    return {size: ours[size] / theirs[size] for size in sorted(set(ours) & set(theirs))}


def audio_table(kept: Kept) -> str:
    """Best rates by effective depth, the paper's and ours."""
    columns: dict[str, dict[int, str]] = {}
    for setting in (AUDIO_TRANSFORMER, AUDIO_CNN):
        column = columns[setting.title] = {}
        if (sweep := kept.sweeps.get(setting.name)) is not None:
            tuned, depths = sweep.results.tuned_rates, sweep.results.depths or {}
            column.update({depth: rate(tuned.get(size)) for size, depth in depths.items()})
    rows = [
        [str(depth), rate(printed), *(column.get(depth, NOT_YET) for column in columns.values())]
        for depth, printed in AUDIO_RATES.items()
    ]
    return markdown_table(("effective depth", "paper", *columns), rows)


def pathsum_rates(kept: Kept) -> dict[str, dict[int, float]]:
    """By rule, then blocks; `tuned` first, `AM-μP` where energies are kept."""
    sweep, energies = kept.sweeps.get(CIFAR10_RESNET.name), kept.energies.get(RESNET_ENERGY.name)
    if sweep is None or not (tuned := sweep.results.tuned_rates):
        return {}
    first, depths = min(tuned), sweep.results.depths or {}
    start = tuned[first]
    found = {
        "tuned": tuned,
        "law": {size: Law().carry(start, RuleRecipe(depths[first]), RuleRecipe(depths[size])).rate for size in tuned},
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


def energy_table(recipe: Recipe, kept: Kept) -> str:
    """A row a setting, over total effective depth."""
    settings = [setting for setting in recipe.settings if isinstance(setting, EnergySetting)]
    return markdown_table(EXPONENTS, [_exponents_row(setting, kept.energies.get(setting.name)) for setting in settings])


def gelu_line() -> str:
    """Arithmetic, not measurement: q by quadrature."""
    q = gating_factor("gelu")
    drift = ", ".join(f"{gating_factor('gelu', std=std):.3f} at std {std:g}" for std in (0.5, 0.8, 1.25))
    return (
        f"GELU has q = {q:.3f} (paper 0.456) where the pre-activations have std 1. He variance then gives chi = 2q = "
        f"{2 * q:.3f} a layer (paper 0.912). At other scales q is {drift}. ReLU has q = "
        f"{gating_factor('relu'):.3f} at any scale."
    )


def _exponents_row(setting: EnergySetting, found: Energies | None) -> list[str]:
    if found is None or not found.counts:
        return [setting.title, NOTHING, NOT_YET, *[NOTHING] * 4]
    fit = found.fit()
    moving = {found.depths[row] for row in found.moving} or {0}
    vanish = "; deeper ones vanish" if max(found.depths) > max(moving) else ""
    return [
        setting.title,
        f"{min(moving)} to {max(moving)}{vanish}",
        slope(fit),
        r2(fit),
        against(fit, LAW_EXPONENT),
        slope(found.fit(readout=True)),
        str(max(map(found.depths.count, found.depths))),
    ]
