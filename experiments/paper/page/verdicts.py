"""How many slopes agree with what the paper prints, and with the law: counts by rule."""

from __future__ import annotations

from collections.abc import Sequence

from depthlr.law.rules import LAW_EXPONENT
from experiments.pages import markdown_table
from experiments.paper.page.comparison import HOLDS, SHALLOWER, STEEPER, UNDECIDED, against
from experiments.paper.page.kept import Sweep

WORDS = {
    HOLDS: "contains it",
    UNDECIDED: "undecided: contains it, but is wider than a whole power",
    SHALLOWER: "shallower: the rate falls more slowly",
    STEEPER: "steeper: the rate falls faster",
}


def verdicts(sweeps: Sequence[Sweep]) -> str:
    """A row a verdict; of finished sweeps."""
    by_protocol = {
        protocol: [
            against(s.fit(s.setting.label), s.setting.printed[0].slope)
            for s in sweeps
            if s.setting.printed and s.protocol == protocol
        ]
        for protocol in ("paper", "short")
    }
    own = [against(s.fit(s.setting.label), LAW_EXPONENT) for s in sweeps]
    total = [against(s.fit("depth"), LAW_EXPONENT) for s in sweeps]
    head = (
        "our 95 % interval",
        "of the slope the paper prints, `paper`",
        "the same, `short`",
        "of −3/2, over the paper’s depth",
        "of −3/2, over total depth",
    )
    columns = (*by_protocol.values(), own, total)
    return markdown_table(
        head, [[text, *(str(found.count(word)) for found in columns)] for word, text in WORDS.items()]
    )
