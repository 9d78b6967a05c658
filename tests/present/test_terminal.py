"""The landscape as text: no line too wide, the best rate under its mark, whatever the results."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.present.made_results import made_landscape, results_of

from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text
from depthlr.present import text_landscape
from depthlr.present.scaling import scaling

INF = math.inf
RATES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # the study's grid
V = {1e-3: 2.0, 1e-2: 1.0, 1e-1: 1.5, 1.0: INF}


def rows(text, depths):
    """The lines of these depths: what stands between the depth and the best rate."""
    lines = text.splitlines()[1 : len(depths) + 1]
    return [line[len("depth  ") :] for line in lines]


@pytest.mark.parametrize("width", [40, 72, 200])
@pytest.mark.parametrize("seed", range(3))
def test_no_line_is_wider_than_asked_and_every_depth_has_one_with_its_best_rate(width, seed):
    results = made_landscape(seed)
    text = text_landscape(results, width)
    assert max(map(len, text.splitlines())) <= width
    for size, line in zip(results.study.model.sizes, text.splitlines()[1:], strict=False):
        optima = [c.optimum.rate for c in results.curves if c.size == size]
        best = 10 ** (sum(map(math.log10, optima)) / len(optima))
        assert line.split()[0] == str(size + 1)
        assert line.endswith(rate_text(best))
        assert line.count("◆") == 1
        assert "×" in line


def test_heights_follow_the_loss_and_the_mark_stands_on_the_best_rate():
    (row,) = rows(text_landscape(results_of({(3, 0): {1e-4: 3.0, **V}}), 45), [4])
    wide = (45 - len("depth") - len("    best rate")) // 5  # five rates were run
    blocks = [row[i * wide : (i + 1) * wide] for i in range(5)]
    assert blocks[0] == "█" * wide
    assert "◆" in blocks[2]
    assert blocks[4] == "×" * wide
    heights = ["▁▂▃▄▅▆▇█".index(blocks[i][-1]) for i in (0, 1, 2, 3)]
    assert heights[0] > heights[1] > heights[3] > heights[2] == 0


def test_seeds_that_differ_in_level_still_show_the_bowl():
    one = results_of({(3, 0): V})
    two = results_of({(3, 0): V, (3, 1): {rate: loss + 100 for rate, loss in V.items()}})
    assert text_landscape(one) == text_landscape(two)


def test_rates_that_were_not_run_stay_empty():
    (row,) = rows(text_landscape(results_of({(3, 0): {1e-4: 2.0, 1e-2: 1.0, 1.0: 2.0}})), [4])
    assert " █" in row.rstrip()


@given(
    st.dictionaries(
        st.tuples(st.sampled_from([1, 3, 6]), st.integers(0, 2)),
        st.dictionaries(st.sampled_from(RATES), st.one_of(st.just(INF), st.floats(0, 1e6)), min_size=1),
        min_size=1,
    ),
    st.integers(40, 130),
)
@settings(max_examples=150, deadline=None)
def test_any_results_fit_any_width(losses, width):
    results = results_of(losses)
    text = text_landscape(results, width)
    assert max(map(len, text.splitlines())) <= width
    for size, line in zip(sorted({s for s, _ in losses}), text.splitlines()[1:], strict=False):
        curves = [curve for curve in results.curves if curve.size == size]
        alive = any(curve.optimum for curve in curves)
        inside = any(curve.optimum and not curve.optimum.at_edge for curve in curves)
        assert line.endswith("-") != alive
        assert line.endswith("at edge") == (alive and not inside)
        assert line.count("◆") == inside


def test_a_seed_at_the_edge_of_the_range_does_not_count_in_the_best_rate():
    low = {1e-4: 1.0, 1e-3: 2.0}
    text = text_landscape(results_of({(3, 0): V, (3, 1): low, (6, 0): low}))
    assert [line.split("  ")[-1] for line in text.splitlines()[1:3]] == ["1.00e-2", "at edge"]


def test_sizes_stand_in_for_depths_that_were_not_counted():
    text = text_landscape(replace(made_landscape(), depths=None))
    assert text.startswith("layers  loss against rate")


def test_nothing_to_show_is_a_sentence():
    with pytest.raises(DepthlrError, match="at least 40"):
        text_landscape(made_landscape(), 39)
    with pytest.raises(DepthlrError, match="no finished cell"):
        text_landscape(replace(made_landscape(), records=()))
    with pytest.raises(DepthlrError, match="no finished cell"):
        scaling(replace(made_landscape(), records=()))
    with pytest.raises(DepthlrError, match="the sweep is not finished: run it on"):
        replace(made_landscape(), records=()).fit()


def test_an_argument_called_depth_is_not_shown_as_the_effective_depth():
    made = made_landscape()
    named = replace(made.study, model=replace(made.study.model, spec="their:net", vary="depth"))
    assert text_landscape(replace(made, study=named)).startswith("depth  loss against rate")
    assert text_landscape(replace(made, study=named, depths=None)).startswith("depth (argument)  loss against rate")
