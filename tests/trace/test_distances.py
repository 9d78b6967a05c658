"""Dominators and distances against slow references on random graphs."""

from hypothesis import given
from hypothesis import strategies as st

from depthlr.trace.distances import Dominators, compute_distances, weighted_between
from depthlr.trace.graph import Graph, Node


@st.composite
def graphs(draw) -> Graph:
    graph = Graph()
    for index in range(1, draw(st.integers(1, 24)) + 1):
        inputs = draw(st.lists(st.integers(0, index - 1), min_size=1, max_size=3, unique=True))
        weighted = draw(st.booleans())
        graph.nodes.append(Node("linear" if weighted else "add", tuple(inputs), weighted=weighted))
    graph.readout = len(graph.nodes) - 1
    return graph


def all_paths(graph: Graph, start: int, end: int) -> list[list[int]]:
    if start == end:
        return [[start]]
    return [[*p, end] for i in graph.nodes[end].inputs for p in all_paths(graph, start, i)]


def dominators(graph: Graph, node: int) -> set[int]:
    """Nodes on every path from the input."""
    memo: dict[int, set[int]] = {0: {0}}
    for index in range(1, node + 1):
        memo[index] = {index} | set.intersection(*(memo[i] for i in graph.nodes[index].inputs))
    return memo[node]


@given(graphs())
def test_immediate_dominators(graph: Graph) -> None:
    tree = Dominators()
    for index, node in enumerate(graph.nodes[1:], 1):
        assert tree.common(node.inputs) == max(dominators(graph, index) - {index})
        tree.add(node.inputs)


@given(graphs(), st.data())
def test_common_dominator_is_the_nearest_one(graph: Graph, data) -> None:
    tree = Dominators()
    for node in graph.nodes[1:]:
        tree.add(node.inputs)
    chosen = data.draw(st.lists(st.integers(0, len(graph.nodes) - 1), min_size=1, max_size=3))
    assert tree.common(chosen) == max(set.intersection(*(dominators(graph, n) for n in chosen)))


@given(graphs(), st.data())
def test_weighted_between_counts_along_all_paths(graph: Graph, data) -> None:
    origin = data.draw(st.integers(0, len(graph.nodes) - 1))
    end = data.draw(st.integers(origin, len(graph.nodes) - 1))
    counts = [sum(graph.nodes[n].weighted for n in p[1:]) for p in all_paths(graph, origin, end)]
    found = weighted_between(graph, origin, [end]).get(end)
    assert found == ((min(counts), max(counts)) if counts else None)


@given(graphs())
def test_depth_is_at_most_the_shortest_weighted_path_plus_its_updates(graph: Graph) -> None:
    distances = compute_distances(graph)
    for index in range(1, len(graph.nodes)):
        step = distances[index].previous
        assert distances[index].depth == distances[step].depth + bool(distances[index].kind)
        assert step < index


@given(st.integers(1, 40), st.integers(1, 4))
def test_a_stack_of_residual_branches_counts_one_each(blocks: int, branch: int) -> None:
    graph = Graph()
    stream = 0
    for _ in range(blocks):
        inner = stream
        for _ in range(branch):
            graph.nodes.append(Node("linear", (inner,), weighted=True))
            inner = len(graph.nodes) - 1
        graph.nodes.append(Node("add", (stream, inner)))
        stream = len(graph.nodes) - 1
    assert compute_distances(graph)[stream].depth == blocks


def layers(graph: Graph, value: int, count: int = 1) -> int:
    for _ in range(count):
        graph.nodes.append(Node("linear", (value,), weighted=True))
        value = len(graph.nodes) - 1
    return value


def joined(graph: Graph, name: str, *inputs: int) -> int:
    graph.nodes.append(Node(name, inputs))
    return len(graph.nodes) - 1


def stack(graph: Graph, stream: int, updates: int) -> int:
    for _ in range(updates):
        stream = joined(graph, "add", stream, layers(graph, stream))
    return stream


@given(st.integers(0, 12), st.integers(1, 4))
def test_a_skip_passes_over_nothing_in_what_joins_its_branch_from_elsewhere(encoder: int, decoder: int) -> None:
    graph = Graph()
    source, target = joined(graph, "input", 0), joined(graph, "input", 0)
    memory = stack(graph, layers(graph, source), encoder)
    stream = layers(graph, target)
    for _ in range(decoder):
        stream = stack(graph, stream, 1)
        stream = joined(graph, "add", stream, layers(graph, joined(graph, "matmul", stream, memory)))
    distances = compute_distances(graph)
    assert not any(one.skipped for one in distances)
    assert distances[stream].depth == 1 + 2 * decoder


@given(st.integers(1, 12), st.integers(0, 12), st.booleans())
def test_a_long_skip_passes_over_the_updates_between(inside: int, encoder: int, join: bool) -> None:
    graph = Graph()
    source, target = joined(graph, "input", 0), joined(graph, "input", 0)
    memory = stack(graph, layers(graph, source), encoder)
    origin = layers(graph, target)
    end = stack(graph, layers(graph, origin), inside)
    end = layers(graph, joined(graph, "matmul", end, memory) if join else end)
    skip = joined(graph, "add", origin, end)
    assert compute_distances(graph)[skip].skipped == inside
