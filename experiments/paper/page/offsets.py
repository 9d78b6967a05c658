"""By how much tuned rates differ from the baseline's at one size: the paper says that padding and kernel do no more."""

from __future__ import annotations

from depthlr.law.curve import geometric
from experiments.paper.page.kept import Kept, Sweep
from experiments.paper.recipe import Recipe
from experiments.paper.setting import Setting


def offsets(recipe: Recipe, kept: Kept) -> str:
    """A line a setting and protocol that the first setting, the baseline, was trained under too."""
    baseline, *others = [setting for setting in recipe.settings if isinstance(setting, Setting)]
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
