import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthlr.errors import DepthlrError
from depthlr.law.curve import log_grid


@given(st.floats(-8, -1), st.floats(0.1, 6), st.integers(2, 100))
def test_a_grid_is_even_in_the_logarithm(low, span, points):
    grid = log_grid(10**low, 10 ** (low + span), points)
    assert len(grid) == points
    assert grid == sorted(grid)
    assert np.diff(np.log10(grid)) == pytest.approx(span / (points - 1), rel=1e-6)


def test_the_papers_grid_is_numpys_logspace_with_exact_ends():
    grid = log_grid(1e-4, 1e1, 80)
    assert (grid[0], grid[-1]) == (1e-4, 1e1)
    np.testing.assert_allclose(grid, np.logspace(-4, 1, 80), rtol=1e-12)


def test_bad_grids_say_what_is_wrong():
    with pytest.raises(DepthlrError, match="below"):
        log_grid(1, 1e-3, 5)
    with pytest.raises(DepthlrError, match="points"):
        log_grid(1e-3, 1, 1)
    with pytest.raises(DepthlrError, match="lowest"):
        log_grid(0, 1, 5)
