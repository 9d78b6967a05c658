"""Verdicts from tables: a task that follows the law passes, one that does not is warned about."""

import math
from dataclasses import replace

import pytest
from tests.experiments.transferbench.made import SIZES, bowl, measured

from depthlr.energy.persistent import PersistentEnergy
from depthlr.transfer.check import Verdict
from experiments.transferbench.known import Draw, Oracle
from experiments.transferbench.scores import Known
from experiments.transferbench.table import FAILS, Judgement, judgement, sentence


def following(exponent: float, tuned: float) -> Known:
    """Measured rates fall by one power of depth, tuned ones by another; draws scatter by a few percent."""

    def size_of(size: int):
        energy = size ** (-2 * exponent)
        draws = [Draw(PersistentEnergy(energy * share, energy * share, 1.0, 2.3, 16), 0.1) for share in (0.9, 1.0, 1.1)]
        return replace(measured(size, energy), persistent=tuple(draws))

    oracle = Oracle({size: {0: bowl(-1 + tuned * math.log10(size / 4))} for size in SIZES})
    return Known("made", oracle, {size: size_of(size) for size in SIZES})


def test_a_task_that_follows_the_law_passes():
    found = judgement(following(-1.5, -1.5))
    assert found is not None
    assert (found.verdict, found.fails) == (Verdict.passed, False)
    assert found.error == pytest.approx(0.0, abs=1e-3)


def test_a_task_whose_measured_rates_do_not_follow_the_law_is_warned_about():
    found = judgement(following(-0.5, -0.5))
    assert found is not None
    assert found.verdict is not Verdict.passed
    assert found.error == pytest.approx(math.log10(4), abs=1e-3)  # a whole power of depth, from 4 to 16


def test_a_stem_of_another_scale_is_no_explosion():
    """The first of a residual model's units is its stem, which the check leaves out."""
    known = following(-1.5, -1.5)

    def scaled(one, residual: int):
        units = [
            replace(unit, mean_square=10.0 ** (-place * one.size)) for place, unit in enumerate(one.steps[0].hidden)
        ]
        step = replace(one.steps[0], hidden=(units[-1], units[0]))
        return replace(one, residual=residual, steps=(step,) * 3)

    found = {
        residual: judgement(replace(known, measured={s: scaled(one, residual) for s, one in known.measured.items()}))
        for residual in (0, 1)
    }
    assert found[0].verdict is Verdict.fail
    assert found[1].verdict is Verdict.passed


def test_without_persistent_energies_there_is_no_verdict():
    known = following(-1.5, -1.5)
    bare = {size: replace(one, persistent=()) for size, one in known.measured.items()}
    assert judgement(replace(known, measured=bare)) is None


def test_the_sentence_names_what_was_missed():
    found = [
        Judgement("warned", Verdict.caution, FAILS + 0.1),
        Judgement("missed", Verdict.passed, FAILS + 0.2),
        Judgement("fine", Verdict.passed, 0.1),
        Judgement("needless", Verdict.fail, 0.1),
    ]
    text = sentence(found)
    assert text.startswith("In 2 tasks the law's rate")
    assert "caution or fail for 1 of them (not for missed (0.40))" in text
    assert "Of the 2 other tasks, 1 pass." in text
