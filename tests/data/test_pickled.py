"""Reading CIFAR's pickles: what pickle would read, and nothing run."""

import pickle
import pickletools
import warnings
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.data.published import examples, python2_pickle

from depthlr.data.pickled import read_pickled_dict
from depthlr.errors import DepthlrError

leaves = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=8)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(-300, 70_000), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=5), values, max_size=5))
@settings(max_examples=100)
def test_plain_data_reads_as_pickle_reads_it(data):
    content = pickle.dumps(data, protocol=2)
    found = read_pickled_dict(content, "here")
    assert found == data
    assert repr(found) == repr(pickle.loads(content))  # 1 is not True, nor a list a tuple


@given(st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=20)
def test_a_batch_of_python_2_reads_as_pickle_reads_it(count, seed):
    content = python2_pickle(*examples(count, 100, seed), "fine_labels")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy.core has moved since
        truth = pickle.loads(content, encoding="latin-1")
    found = read_pickled_dict(content, "here")
    assert found.keys() == truth.keys()
    assert found["fine_labels"] == truth["fine_labels"]
    np.testing.assert_array_equal(found["data"], truth["data"])
    assert found["data"].dtype == np.uint8


class Trap:
    """Unpickled, it would leave a mark."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_calls_something_is_refused_and_not_run(tmp_path, protocol):
    with pytest.raises(DepthlrError, match="nothing in it was run"):
        read_pickled_dict(pickle.dumps({"data": Trap(tmp_path / "sprung")}, protocol=protocol), "here")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cos\nsystem\n(S'touch sprung'\ntR.",
        b"\x80\x02cbuiltins\neval\nU\x011\x85R.",
        b"(S'touch sprung'\nios\nsystem\n.",  # INST
        b"\x80\x02cnumpy\nload\nU\x01x\x85R.",
        b"\x80\x02}U\x01acnumpy\ndtype\nU\x01O\x85Rs.",  # a dtype of objects
        b"\x80\x02P1\n.",  # a persistent id
        b"\x80\x02\x82\x01.",  # an extension code
        b"\x80\x02]q\x00h\x00a.",  # a list in itself is no dict
        b"\x80\x02}]h\x05s.",
        b"\x80\x02}}Ns.",  # a dict as key has no place here
        b"\x80\x02)(tttt.",
        b"\x80\x02}(U\x01aK\x01U\x01bu.",  # a key without its value
        b"",
        b".",
        b"\x80\x02}",
        b"\x80\x02}U\x01acnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87Rs.",  # no state
    ],
)
def test_anything_else_is_refused(content):
    with pytest.raises(DepthlrError, match="no pickle of plain data"):
        read_pickled_dict(content, "here")


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"U\x02u1", b"U\x02O8"), (b"J\x00\x0c\x00\x00", b"J\x01\x0c\x00\x00"), (b"numpy\nndarray", b"numpy\nmemmap!")],
    ids=["dtype", "shape", "class"],
)
def test_an_array_that_is_not_plain_bytes_is_refused(old, new):
    content = python2_pickle(*examples(2, 10), "labels")
    assert content.count(old) == 1
    with pytest.raises(DepthlrError, match="no pickle of plain data"):
        read_pickled_dict(content.replace(old, new), "here")


BATCH = python2_pickle(*examples(1, 10), "labels")


@given(st.integers(0, len(BATCH) - 1))
@settings(max_examples=60)
def test_a_truncated_batch_is_refused(length):
    with pytest.raises(DepthlrError):
        read_pickled_dict(BATCH[:length], "here")


@given(st.binary(max_size=60))
@settings(max_examples=300)
@example(b"\x80\x02}(" + b"h\x00" * 5)
def test_no_bytes_do_anything_but_read_or_be_refused(content):
    for bytes_ in (content, b"\x80\x02}(U\x01a" + content + b"u."):
        with suppress(DepthlrError):
            assert isinstance(read_pickled_dict(bytes_, "here"), dict)


opcodes = st.sampled_from([o.code.encode("latin-1") for o in pickletools.opcodes])


@given(st.lists(opcodes | st.sampled_from([b"\x00", b"\x01", b"U\x01a", b"K\x01", b"}", b"]", b"("]), max_size=25))
@settings(max_examples=300)
def test_no_opcodes_do_anything_but_read_or_be_refused(codes):
    with suppress(DepthlrError):
        assert isinstance(read_pickled_dict(b"\x80\x02}" + b"".join(codes) + b".", "here"), dict)


def test_a_structure_that_doubles_at_every_level_costs_nothing():
    levels = b"".join(b"q\x00h\x00\x86" for _ in range(2000))
    assert set(read_pickled_dict(b"\x80\x02}U\x01aK\x01" + levels + b"s.", "here")) == {"a"}
