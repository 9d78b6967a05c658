"""The answer in short, and every sweep's slope beside the paper's."""

from __future__ import annotations

from depthlr.law.rules import LAW_EXPONENT
from experiments.pages import markdown_table
from experiments.paper import RECIPES
from experiments.paper.page.averages import averages
from experiments.paper.page.changes import changes
from experiments.paper.page.comparison import against
from experiments.paper.page.families import families
from experiments.paper.page.kept import Kept, Sweep
from experiments.paper.page.verdicts import verdicts
from experiments.paper.page.words import NOT_YET, NOTHING, r2, slope
from experiments.paper.page.zero_shot_tables import headline
from experiments.paper.setting import Setting

HEAD = (
    "setting",
    "paper",
    "ours, over the paper’s depth",
    "R²",
    "ours, over total depth",
    "protocol",
    "against the paper",
    "against −3/2, over total depth",
)


def answer(kept: Kept) -> str:
    """In short: how far it is, slopes by kind of model, the counts of verdicts, the zero-shot test."""
    done = finished(kept)
    if not done:
        return f"None of the {len(_settings())} settings has been measured in full yet."
    parts = [
        f"**Slopes by kind of model.** {len(done)} of {len(_settings())} settings have a finished sweep: "
        f"{sum(sweep.protocol == 'paper' for sweep in done)} under `paper`, the others under `short`. A row mixes both "
        "protocols, and may hold one model at several epochs or patch sizes. Read rows as ranges. *Too large* and *too "
        "small* follow from the median slope.",
        families(kept),
        headline(kept),
        f"**Verdicts**, one per setting:\n\n{verdicts(done)}",
        averages(kept),
        "**One change at a time.** Both sides have the same protocol. The number after ± is half the 95 % interval."
        f"\n\n{found}"
        if (found := changes(kept))
        else "",
    ]
    return "\n\n".join(part for part in parts if part)


def every_setting(kept: Kept) -> str:
    """A row a setting."""
    return markdown_table(HEAD, [_row(setting, kept.sweeps.get(name)) for name, setting in _settings().items()])


def finished(kept: Kept) -> list[Sweep]:
    """What counts."""
    return [sweep for sweep in kept.sweeps.values() if sweep.counts]


def _settings() -> dict[str, Setting]:
    everything = [setting for recipe in RECIPES.values() for setting in recipe.settings]
    return {s.name: s for s in everything if isinstance(s, Setting) and s.scan is None}


def _row(setting: Setting, sweep: Sweep | None) -> list[str]:
    printed = setting.printed[0] if setting.printed else None
    stated = NOTHING if printed is None else _stated(setting)
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


def _stated(setting: Setting) -> str:
    """The slope of its table, and where the paper prints others of the same setting."""
    first, *rest = setting.printed
    others = dict.fromkeys(str(one) for one in rest if round(first.slope, one.digits) != one.slope)
    return f"{first} (elsewhere {', '.join(others)})" if others else str(first)
