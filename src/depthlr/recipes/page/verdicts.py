"""Where the law holds and where it does not, as lists by rule."""

from __future__ import annotations

from depthlr.law.power import LAW_EXPONENT
from depthlr.present.numbers import signed
from depthlr.recipes.page.comparison import HOLDS, SHALLOWER, STEEPER, UNDECIDED, against
from depthlr.recipes.page.kept import Kept

WORDS = {
    HOLDS: "**It holds** (the 95 % interval over total depth contains −3/2)",
    SHALLOWER: "**The rate falls more slowly**",
    STEEPER: "**The rate falls faster**",
    UNDECIDED: "**Undecided** (no interval, or one that contains −3/2 and is wider than a whole power)",
}


def verdicts(kept: Kept) -> str:
    """One line a verdict, with the slopes; unfinished sweeps do not count."""
    found: dict[str, list[str]] = {word: [] for word in WORDS}
    for sweep in kept.sweeps.values():
        if sweep.counts:
            fit = sweep.fit("depth")
            slope = "" if fit is None else f" {signed(fit.slope)}"
            found[against(fit, LAW_EXPONENT)].append(f"{sweep.setting.title}{slope}")
    return "\n".join(f"- {text}: {'; '.join(found[word]) or 'none measured'}." for word, text in WORDS.items())
