"""The answer: every sweep's slope beside the paper's, and in a sentence how many agree."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from depthlr.law.power import LAW_EXPONENT
from depthlr.present.numbers import signed
from depthlr.recipes import RECIPES
from depthlr.recipes.page.comparison import HOLDS, SHALLOWER, STEEPER, UNDECIDED, against
from depthlr.recipes.page.families import families
from depthlr.recipes.page.kept import Kept, Sweep
from depthlr.recipes.page.words import NOT_YET, NOTHING, r2, slope, table
from depthlr.recipes.setting import Setting

HEAD = ("setting", "paper", "ours, over its depth", "R²", "ours, over total depth", "protocol", "the paper’s", "−3/2")


def answer(kept: Kept) -> str:
    """The summary, slopes by kind of model, then a row a setting."""
    settings = {s.name: s for recipe in RECIPES.values() for s in recipe.settings if isinstance(s, Setting)}
    rows = [_row(setting, kept.sweeps.get(name)) for name, setting in settings.items()]
    parts = [summary(list(kept.sweeps.values()), len(settings)), families(kept), table(HEAD, rows)]
    return "\n\n".join(part for part in parts if part)


def summary(sweeps: Sequence[Sweep], settings: int) -> str:
    """How many intervals hold what was stated, from finished sweeps alone."""
    done = [sweep for sweep in sweeps if sweep.counts]
    if not done:
        return f"None of the {settings} settings has been measured in full yet."
    printed = [(s, s.setting.printed[0].slope) for s in done if s.setting.printed]
    paper = [against(s.fit(s.setting.label), stated) for s, stated in printed]
    law = [against(s.fit("depth"), LAW_EXPONENT) for s in done]
    slopes = [fit.slope for s in done if (fit := s.fit("depth"))]
    middle = f" The median slope over total depth is {signed(median(slopes))}." if slopes else ""
    return (
        f"Measured: {len(done)} of {settings} settings. Against the slope the paper prints: {_counts(paper)}. Against "
        f"the law’s −3/2, over total depth: {_counts(law)}.{middle}"
    )


def _counts(words: Sequence[str]) -> str:
    names = {HOLDS: "our 95 % interval holds it in", SHALLOWER: "ours is shallower in", STEEPER: "steeper in"}
    found = [f"{text} {words.count(word)}" for word, text in names.items()]
    unsure = words.count(UNDECIDED)
    return ", ".join(found) + (f", undecided in {unsure}" if unsure else "") + f" (of {len(words)})"


def _row(setting: Setting, sweep: Sweep | None) -> list[str]:
    printed = setting.printed[0] if setting.printed else None
    stated = NOTHING if printed is None else str(printed)
    if sweep is None:
        return [setting.title, stated, NOT_YET, *[NOTHING] * 5]
    own, total = sweep.fit(setting.label), sweep.fit("depth")
    over = setting.vary if setting.label == "size" else "total depth"
    protocol = sweep.protocol + ("" if sweep.facts["complete"] else ", unfinished")
    return [
        setting.title,
        stated,
        f"{slope(own)} over {over}" if own else "too few optima inside the grid",
        r2(own),
        slope(total) if setting.label == "size" else "the same",
        protocol,
        NOTHING if printed is None or not sweep.counts else against(own, printed.slope),
        against(total, LAW_EXPONENT) if sweep.counts else NOTHING,
    ]
