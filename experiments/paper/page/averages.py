"""What the paper says of its tables as wholes, beside ours: means and ranges of nine slopes each."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from depthlr.formatting import signed
from experiments.pages import markdown_table
from experiments.paper.ablation import ABLATION, CNN_GELU
from experiments.paper.main import IMAGENET_VIT_PATCH_8, MAIN
from experiments.paper.page.kept import Kept, Sweep
from experiments.paper.page.words import exact
from experiments.paper.recipe import Recipe
from experiments.paper.setting import Setting

TWICE = (IMAGENET_VIT_PATCH_8, CNN_GELU)  # settings of which the paper prints one slope and we have two
ABLATED = (-1.8, -1.1)  # "All tested configurations yield exponents within the range"


def averages(kept: Kept) -> str:
    """A row a table of the paper, or nothing where a sweep is missing. Slopes are over the paper's depth."""
    main, ablation = _sweeps(MAIN, kept, "paper", "short"), _sweeps(ABLATION, kept, "short")
    if not main or not ablation:
        return ""
    inside = sum(ABLATED[0] <= slope <= ABLATED[1] for slope in _slopes(ablation))
    rows = [
        ["main", _summary(_printed(main)), _summary(_slopes(main)), "`paper`, or `short` where it has no other"],
        ["ablation", _summary(_printed(ablation)), _summary(_slopes(ablation)), "`short`"],
    ]
    return (
        "**On average**, over the paper’s depth, with the range of the slopes:\n\n"
        f"{markdown_table(('table', 'the paper’s slopes', 'ours', 'protocol'), rows)}\n\n"
        f"The paper says that all its ablations lie within {exact(ABLATED[0], 1)} to {exact(ABLATED[1], 1)}. Of ours, "
        f"{inside} of {len(ablation)} do. These rows take GELU with He variance and the ViT with patch 16."
    )


def _sweeps(recipe: Recipe, kept: Kept, *protocols: str) -> list[Sweep]:
    """One a setting, under the first of these protocols that is finished; none at all where a setting has none."""
    settings = [s for s in recipe.settings if isinstance(s, Setting) and s not in TWICE]
    finished = {(one.setting.name, one.protocol): one for s in settings for one in kept.protocols(s) if one.counts}
    found = [[finished[s.name, p] for p in protocols if (s.name, p) in finished] for s in settings]
    return [first for first, *_ in found] if all(found) else []


def _slopes(sweeps: Sequence[Sweep]) -> list[float]:
    return [fit.slope for sweep in sweeps if (fit := sweep.fit(sweep.setting.label))]


def _printed(sweeps: Sequence[Sweep]) -> list[float]:
    return [sweep.setting.printed[0].slope for sweep in sweeps]


def _summary(slopes: Sequence[float]) -> str:
    return f"{signed(fmean(slopes))} ({signed(min(slopes))} to {signed(max(slopes))})"
