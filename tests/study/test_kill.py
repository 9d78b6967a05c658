"""A sweep killed at any moment and resumed ends with the very table of one that was left alone."""

from experiments.faults.kill import kill_and_resume
from experiments.landscape import landscape


def test_a_killed_sweep_loses_no_kept_cell_and_ends_the_same(tmp_path):
    verdict = kill_and_resume(landscape(3), 8, tmp_path)
    assert verdict.passed, verdict
    assert verdict.kills >= 5
