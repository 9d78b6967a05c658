import math
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.law.pathsum_graph import log_pathsum_graph

from depthlr.errors import DepthlrError
from depthlr.law.rules import log_pathsum, pathsum_transfer, transfer_by_power


def path_lengths(predecessors, weighted, source, node):
    """Reference: the weighted length of every path from source to node, one by one."""
    own = int(node in weighted)
    if node == source:
        return [own]
    return [
        own + length for p in predecessors.get(node, ()) for length in path_lengths(predecessors, weighted, source, p)
    ]


def binomial_sum(plain, residual):
    """Reference: the sum over k of C(K, k) (k + m)^3 in exact integers."""
    return sum(comb(residual, k) * (k + plain) ** 3 for k in range(residual + 1))


def residual_stack(plain, residual):
    """A chain of plain units and then residual blocks, each a weighted branch added to its skip."""
    predecessors, weighted, last = {"in": []}, set(), "in"
    for i in range(plain):
        predecessors[f"plain{i}"] = [last]
        weighted.add(last := f"plain{i}")
    for i in range(residual):
        predecessors[f"branch{i}"] = [last]
        weighted.add(f"branch{i}")
        predecessors[f"add{i}"] = [last, f"branch{i}"]
        last = f"add{i}"
    return predecessors, weighted, last


@st.composite
def graphs(draw):
    """A random acyclic graph over 0..n-1 whose every node has an edge from an earlier one; parallel edges occur."""
    size = draw(st.integers(2, 9))
    predecessors = {0: []}
    for node in range(1, size):
        predecessors[node] = draw(st.lists(st.integers(0, node - 1), min_size=1, max_size=3))
    weighted = draw(st.sets(st.integers(0, size - 1)))
    shuffled = draw(st.permutations(list(predecessors)))
    return {node: predecessors[node] for node in shuffled}, weighted, size - 1


@given(graphs())
def test_the_graph_programme_equals_path_enumeration(graph):
    predecessors, weighted, sink = graph
    total = sum(length**3 for length in path_lengths(predecessors, weighted, 0, sink))
    if total == 0:
        with pytest.raises(DepthlrError, match="weighted unit"):
            log_pathsum_graph(predecessors, weighted, 0, sink)
    else:
        assert log_pathsum_graph(predecessors, weighted, 0, sink) == pytest.approx(
            math.log(total), rel=1e-12, abs=1e-13
        )


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_closed_form_equals_the_binomial_sum(plain, residual):
    if plain + residual:
        expected = math.log(binomial_sum(plain, residual))
        assert log_pathsum(plain=plain, residual=residual) == pytest.approx(expected, rel=1e-13, abs=1e-14)


@pytest.mark.parametrize(("plain", "residual"), [(0, 1500), (7, 2000), (900, 1000)])
def test_the_closed_form_is_exact_for_very_deep_stacks(plain, residual):
    expected = math.log(binomial_sum(plain, residual))  # the log of an exact integer of thousands of bits
    assert log_pathsum(plain=plain, residual=residual) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("plain", "residual"), [(0, 1), (3, 0), (2, 5), (2, 10_000)])
def test_graph_programme_and_closed_form_agree_on_a_residual_stack(plain, residual):
    predecessors, weighted, last = residual_stack(plain, residual)
    by_graph = log_pathsum_graph(predecessors, weighted, "in", last)
    assert by_graph == pytest.approx(log_pathsum(plain=plain, residual=residual), rel=1e-12, abs=1e-13)


def test_the_closed_form_at_ten_thousand_blocks_equals_exact_integer_arithmetic():
    n = 10_000
    assert log_pathsum(plain=0, residual=n) == pytest.approx(math.log(n * n * (n + 3) * 2 ** (n - 3)), rel=1e-15)


@given(st.integers(3, 60))
def test_the_authors_public_formula_is_wrong(n):
    truth = binomial_sum(0, n)
    assert truth == n**2 * (n + 3) * 2 ** (n - 3)
    assert truth != n * (n + 1) * (n + 2) * 2 ** (n - 3)


@given(st.floats(1e-5, 1), st.integers(1, 500), st.integers(1, 500))
def test_on_plain_stacks_pathsum_is_the_law(rate, source, target):
    carried = pathsum_transfer(rate, source=(source, 0), target=(target, 0))
    assert carried == pytest.approx(transfer_by_power(rate, source, target), rel=1e-12)


def test_on_residual_stacks_pathsum_falls_exponentially():
    source, target = (2, 100), (2, 110)
    expected = math.sqrt(binomial_sum(2, 100) / binomial_sum(2, 110))
    assert pathsum_transfer(1.0, source=source, target=target) == pytest.approx(expected, rel=1e-12)
    assert expected < 2**-5  # ten more blocks: 2^10 times as many paths


def test_parallel_edges_are_separate_paths():
    assert log_pathsum_graph({"out": ["in", "in"]}, {"out"}, "in", "out") == pytest.approx(math.log(2))


def test_edges_that_bypass_the_source_do_not_count():
    predecessors = {"out": ["in", "stray"], "in": ["before"]}
    assert log_pathsum_graph(predecessors, {"out", "stray", "before"}, "in", "out") == 0.0


def test_a_graph_that_has_no_answer_says_why():
    with pytest.raises(DepthlrError, match="cycles"):
        log_pathsum_graph({"a": ["b"], "b": ["a"], "out": ["a"]}, {"a"}, "a", "out")
    with pytest.raises(DepthlrError, match="No path leads"):
        log_pathsum_graph({"a": ["in"], "out": ["b"]}, {"out"}, "in", "out")
    with pytest.raises(DepthlrError, match="sink 'nowhere' is not in the graph"):
        log_pathsum_graph({"a": ["in"]}, {"a"}, "in", "nowhere")
    with pytest.raises(DepthlrError, match="source"):
        log_pathsum_graph({"a": ["in"]}, {"a"}, "nowhere", "a")


def test_counts_must_be_whole_and_not_all_zero():
    with pytest.raises(DepthlrError, match="at least one weighted unit"):
        log_pathsum(plain=0, residual=0)
    with pytest.raises(DepthlrError, match="plain"):
        log_pathsum(plain=-1, residual=2)
    with pytest.raises(DepthlrError, match="residual"):
        log_pathsum(plain=1, residual=2.5)


def test_a_rate_beyond_floats_is_an_error():
    for source, target in [((2, 1), (2, 10_000)), ((2, 10_000), (2, 1))]:
        with pytest.raises(DepthlrError, match="float"):
            pathsum_transfer(1e-2, source=source, target=target)
