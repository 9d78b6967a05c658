"""A recipe's sweeps in full: what the paper prints there, slopes over both depths, tuned rates, what was left out."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.pages import markdown_table
from experiments.paper.page.kept import LEARNT, Kept, Sweep
from experiments.paper.page.words import NOT_YET, NOTHING, r2, rate, slope
from experiments.paper.printed import Printed
from experiments.paper.recipe import Recipe
from experiments.paper.setting import Setting

HEAD = ("setting", "paper", "over layers or blocks", "R²", "over total depth", "R²", "left out", "cells", "protocol")


def recipe_table(recipe: Recipe, kept: Kept) -> str:
    """Slopes, then the tuned rates they go through, then what the paper leaves open and how it was filled."""
    settings = [setting for setting in recipe.settings if isinstance(setting, Setting) and setting.scan is None]
    rows: list[list[str]] = []
    found: list[Sweep] = []
    for setting in settings:
        sweeps = kept.protocols(setting)
        rows += [_row(recipe, setting, sweep) for sweep in sweeps] or [_row(recipe, setting, None)]
        found += sweeps
    parts = [
        markdown_table(HEAD, rows),
        *([_rates(found)] if found else []),
        *_mixed(found),
        *_unfinished(found),
        *_unlearnt(found),
    ]
    parts += _notes(settings)
    return "\n\n".join(parts)


def printed_in(recipe: Recipe, setting: Setting) -> Printed | None:
    """What the paper prints of a setting where this recipe looks, or anywhere."""
    here = [printed for printed in setting.printed if printed.where in recipe.places]
    return next(iter((*here, *setting.printed)), None)


def _row(recipe: Recipe, setting: Setting, sweep: Sweep | None) -> list[str]:
    printed = printed_in(recipe, setting)
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
    mixed = protocols and not set.intersection(*protocols.values())
    return (
        ["- Not all were trained under one protocol. Do not compare slopes and rates of different protocols."]
        if mixed
        else []
    )


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
