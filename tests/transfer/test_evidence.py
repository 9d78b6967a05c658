"""Where the evidence ends is said wherever a rate is given."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import depthlr
from depthlr.data.batches import random_batches
from depthlr.law.carried_rate import EVIDENCE
from depthlr.models.mlp import MLP
from depthlr.transfer.suggest import SUGGESTION_EVIDENCE

ROOT = Path(__file__).resolve().parents[2]


def in_one_line(text: str) -> str:
    return " ".join(text.replace("│", " ").replace("*", "").split())


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ((ROOT / "docs" / "guide.md").read_text("utf-8"), EVIDENCE),
        (depthlr.transfer_rate.__doc__, EVIDENCE),
        ((ROOT / "docs" / "guide.md").read_text("utf-8"), SUGGESTION_EVIDENCE),
        (depthlr.suggest_rate.__doc__, SUGGESTION_EVIDENCE),
    ],
    ids=["guide, carried", "transfer_rate", "guide, suggested", "suggest_rate"],
)
def test_docs_say_it(text: str, evidence: str) -> None:
    assert evidence in in_one_line(text)


def test_the_readme_says_how_long_the_runs_were() -> None:
    text = in_one_line((ROOT / "README.md").read_text("utf-8"))
    assert "| 1,200 steps, warm-up and decay" in text
    assert "| 100 to 200 steps" in text


def test_results_carry_it() -> None:
    batches = random_batches(torch.zeros(1, 6), (1, 3), 16, 5, seed=0)
    model = depthlr.init_(MLP(layers=2, width=8, inputs=6, classes=3), batches[0][0], seed=0)
    suggested = depthlr.suggest_rate(model, batches, F.cross_entropy)
    carried = depthlr.transfer_rate(0.1, 4, 8)
    deeper = depthlr.init_(MLP(layers=4, width=8, inputs=6, classes=3), batches[0][0], seed=0)
    measured = depthlr.transfer_rate(0.1, model, deeper, batches=batches, loss_fn=F.cross_entropy)
    assert suggested.evidence == SUGGESTION_EVIDENCE
    assert carried.evidence == measured.evidence == EVIDENCE
    for found in (suggested, carried, measured):
        assert escape(found.evidence) in found._repr_html_()
    for found in (carried, measured):
        assert found.evidence in str(found)
    for rule in ("law", "measured"):
        unknown = depthlr.transfer_rate(0.1, model, model, batches=batches, loss_fn=F.cross_entropy, rule=rule)
        assert (unknown.low, unknown.evidence) == (None, "")
        assert EVIDENCE not in str(unknown)
