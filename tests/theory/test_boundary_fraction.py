import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.theory.boundary import boundary_fraction, kernel_offsets

from depthlr.errors import DepthlrError


def boundary_by_loops(shape, offsets):
    """Reference: look at every site and every offset."""
    sites = list(itertools.product(*(range(size) for size in shape)))
    inside = set(sites)
    cut = sum(any(tuple(np.add(site, offset)) not in inside for offset in offsets) for site in sites)
    return cut / len(sites)


@st.composite
def rectangles(draw):
    axes = draw(st.integers(1, 2))
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=axes, max_size=axes)))
    offset = st.tuples(*[st.integers(-4, 4)] * axes)
    return shape, draw(st.lists(offset, min_size=1, max_size=6))


@given(rectangles())
def test_the_closed_form_equals_the_loops_over_sites(rectangle):
    shape, offsets = rectangle
    assert boundary_fraction(shape, offsets) == boundary_by_loops(shape, offsets)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 2), (4, 3), (5, 2), (1, 6)])
def test_the_boundary_is_where_pytorchs_same_padding_loses_terms(kernel):
    shape = (7, 5)
    ones = torch.ones(1, 1, *shape)
    hits = torch.nn.functional.conv2d(ones, torch.ones(1, 1, *kernel), padding="same")[0, 0]
    cut = (hits < kernel[0] * kernel[1]).float().mean().item()
    assert boundary_fraction(shape, kernel_offsets(kernel)) == pytest.approx(cut)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
def test_offsets_are_what_pytorchs_same_convolution_reads(size):
    signal = torch.zeros(1, 1, 21)
    signal[0, 0, 10] = 1.0
    answer = torch.nn.functional.conv1d(signal, torch.ones(1, 1, size), padding="same")[0, 0]
    readers = [10 - site for site in answer.nonzero().flatten().tolist()]  # the site reads site + offset = 10
    assert sorted(kernel_offsets(size)) == sorted((offset,) for offset in readers)


def test_known_values():
    assert kernel_offsets(3) == [(-1,), (0,), (1,)]
    assert kernel_offsets(2) == [(0,), (1,)]
    assert boundary_fraction((32, 32), kernel_offsets((3, 3))) == 1 - 30**2 / 32**2
    assert boundary_fraction((2,), kernel_offsets(5)) == 1.0


def test_the_boundary_vanishes_as_one_over_the_length():
    fractions = [n * boundary_fraction((n,), kernel_offsets(5)) for n in (10, 100, 1000)]
    assert fractions == pytest.approx([4, 4, 4])


def test_bad_shapes_and_offsets_are_errors():
    for bad in (
        lambda: boundary_fraction((4,), []),
        lambda: boundary_fraction((), [()]),
        lambda: boundary_fraction((4, 4), [(1,)]),
        lambda: boundary_fraction((0,), [(1,)]),
        lambda: kernel_offsets(0),
        lambda: kernel_offsets(()),
        lambda: kernel_offsets((3, 2.5)),
    ):
        with pytest.raises(DepthlrError):
            bad()
