"""The audio table, rate by rate."""

from __future__ import annotations

from experiments.pages import markdown_table
from experiments.paper.audio import AUDIO_CNN, AUDIO_TRANSFORMER, PRINTED_RATES
from experiments.paper.page.kept import Kept
from experiments.paper.page.words import NOT_YET, rate


def audio_table(kept: Kept) -> str:
    """Best rates by effective depth, the paper's and ours."""
    columns: dict[str, dict[int, str]] = {}
    for setting in (AUDIO_TRANSFORMER, AUDIO_CNN):
        sweep = kept.sweeps.get(setting.name)
        columns[setting.title] = (
            {}
            if sweep is None
            else {
                depth: rate(sweep.results.tuned_rates.get(size)) for size, depth in (sweep.results.depths or {}).items()
            }
        )
    rows = [
        [str(depth), rate(printed), *(column.get(depth, NOT_YET) for column in columns.values())]
        for depth, printed in PRINTED_RATES.items()
    ]
    return markdown_table(("effective depth", "paper", *columns), rows)
