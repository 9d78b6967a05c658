"""One rule judges a slope against the law's, wherever it stands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.present.made_results import made_landscape

from depthlr.law import fit_power_law
from depthlr.law.rules import LAW_EXPONENT
from depthlr.present.findings import Judgement, findings, judge_slope, verdict
from depthlr.study.follow import Snapshot

FIT = fit_power_law([4, 8, 16], [1.0, 0.4, 0.1])


@pytest.mark.parametrize(
    ("interval", "says"),
    [
        ((-1.7, -1.3), "Does not contradict the law: −1.70 to −1.30 contains −3/2."),
        ((LAW_EXPONENT, -1.0), "Does not contradict the law: −1.50 to −1.00 contains −3/2."),
        ((-2.1, -1.0), "Undecided: −2.10 to −1.00 contains −3/2 and much else. Add seeds or depths."),
        ((-3.1, 0.1), "Undecided: −3.10 to 0.10 contains −3/2 and much else. Add seeds or depths."),
        ((-np.inf, np.inf), "Undecided: the slope has no interval. Add seeds or a third depth."),
        ((-2.0, -1.6), "Falls faster than the law’s −3/2: use −1.80 (−2.00 to −1.60)."),
        ((-3.6, -1.6), "Falls faster than the law’s −3/2: use −1.80 (−3.60 to −1.60)."),
        ((-1.0, -0.6), "Falls more slowly than the law’s −3/2: use −1.80 (−1.00 to −0.60)."),
    ],
)
def test_the_interval_decides(interval, says):
    assert verdict(replace(FIT, slope=-1.8, interval=interval)) == says


def test_any_slope_can_be_what_was_stated():
    fit = replace(FIT, interval=(-1.2, -0.8))
    assert judge_slope(fit, -1.0) is Judgement.holds
    assert judge_slope(fit, -0.5) is Judgement.faster
    assert judge_slope(fit, -1.5) is judge_slope(fit) is Judgement.slower
    assert judge_slope(replace(fit, interval=(-2.0, 0.0)), -1.0) is Judgement.undecided


def test_the_report_judges_by_it():
    results = made_landscape()
    assert findings(Snapshot(results, None, 0)).verdict == verdict(results.fit("depth"))
