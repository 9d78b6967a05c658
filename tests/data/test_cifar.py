"""CIFAR from every form it is published in."""

import json
import pickle
import pickletools
import warnings
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.data.published import examples, expected, md5, publish, python2_pickle, tar_gz

from depthlr.data.cifar import CIFAR10, CIFAR100, load_cifar, read_pickled_dict
from depthlr.errors import DepthlrError

FORMS = [(c, i, a) for c in (CIFAR10, CIFAR100) for i in (0, 1) for a in (False, True)]


@pytest.mark.parametrize(("cifar", "index", "archived"), FORMS)
def test_every_form_holds_the_same_examples(tmp_path, cifar, index, archived):
    data = load_cifar(publish(cifar, index, tmp_path, archived=archived), tmp_path)
    labels, pixels = expected(cifar, cifar.layouts[index])
    assert data.input == "3x32x32"
    assert data.classes == cifar.classes
    np.testing.assert_array_equal(data.targets.numpy(), labels)
    np.testing.assert_array_equal(data.inputs.numpy().reshape(-1, 3072), pixels)


@pytest.mark.parametrize(("cifar", "index", "archived"), FORMS)
def test_every_form_holds_the_same_test_images(tmp_path, cifar, index, archived):
    data = load_cifar(publish(cifar, index, tmp_path, archived=archived), tmp_path, split="test")
    labels, pixels = expected(cifar, cifar.layouts[index], split="test")
    np.testing.assert_array_equal(data.targets.numpy(), labels)
    np.testing.assert_array_equal(data.inputs.numpy().reshape(-1, 3072), pixels)


def test_a_split_that_is_not_there_is_said(tmp_path):
    known = publish(CIFAR10, 0, tmp_path, archived=False)
    with pytest.raises(DepthlrError, match="cifar10 has the splits train and test, not 'val'"):
        load_cifar(known, tmp_path, split="val")
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    assert len(load_cifar(known, tmp_path)) == 20
    with pytest.raises(DepthlrError, match=r"lacks test_batch\.bin"):
        load_cifar(known, tmp_path, split="test")


def test_a_changed_test_file_is_refused(tmp_path):
    known = publish(CIFAR10, 0, tmp_path, archived=False)
    path = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(bytes(3073))
    with pytest.raises(DepthlrError, match=r"test_batch\.bin has md5"):
        load_cifar(known, tmp_path, split="test")


@pytest.mark.parametrize("cifar", [CIFAR10, CIFAR100])
def test_the_digest_does_not_depend_on_the_form(tmp_path, cifar):
    digests = set()
    for index in (0, 1):
        for archived in (False, True):
            folder = tmp_path / f"{index}{archived}"
            folder.mkdir()
            digests.add(load_cifar(publish(cifar, index, folder, archived=archived), folder).digest)
    assert len(digests) == 1


def test_the_folder_itself_may_be_named(tmp_path):
    known = publish(CIFAR10, 0, tmp_path, archived=False)
    direct = load_cifar(known, tmp_path / "cifar-10-batches-bin")
    assert direct.digest == load_cifar(known, tmp_path).digest


def test_the_binary_form_is_preferred(tmp_path):
    known = publish(publish(CIFAR10, 0, tmp_path, archived=True), 1, tmp_path, archived=False)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(b"never read")
    assert len(load_cifar(known, tmp_path)) == 20


@pytest.mark.parametrize(("cifar", "index", "archived"), [f for f in FORMS if f[0] is CIFAR10 or f[1] or f[2]])
def test_a_changed_published_file_is_refused(tmp_path, cifar, index, archived):
    known = publish(cifar, index, tmp_path, archived=archived)
    layout = cifar.layouts[index]
    path = tmp_path / layout.archive if archived else tmp_path / layout.folder / layout.files[-1]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DepthlrError, match=f"{path.name} has md5 .* fetch it again"):
        load_cifar(known, tmp_path)


def test_the_real_digests_refuse_a_tiny_copy(tmp_path):
    publish(CIFAR10, 0, tmp_path, archived=False)
    with pytest.raises(DepthlrError, match="5dd7e06a14cb22eb9f671a540d1b7c25"):
        load_cifar(CIFAR10, tmp_path)


def test_a_file_without_a_published_digest_is_held_to_its_first_load(tmp_path):
    known = publish(CIFAR100, 0, tmp_path, archived=False)
    load_cifar(known, tmp_path)
    path = tmp_path / "cifar-100-binary" / "train.bin"
    assert list(json.loads((path.parent / "depthlr-digests.json").read_text())) == ["train.bin"]
    original = path.read_bytes()
    path.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
    with pytest.raises(DepthlrError, match=r"train\.bin has sha256 .* first loaded"):
        load_cifar(known, tmp_path)
    path.write_bytes(original)
    load_cifar(known, tmp_path)


@pytest.mark.parametrize("content", [b"", b"x" * 3073, b"\x00\xff" + bytes(3072)], ids=["empty", "cut", "label"])
def test_a_broken_binary_file_is_refused_and_not_remembered(tmp_path, content):
    (tmp_path / "train.bin").write_bytes(content)
    with pytest.raises(DepthlrError, match="again"):
        load_cifar(CIFAR100, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["train.bin"]


def test_a_missing_batch_is_named(tmp_path):
    known = publish(CIFAR10, 0, tmp_path, archived=False)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with pytest.raises(DepthlrError, match=r"lacks data_batch_3\.bin"):
        load_cifar(known, tmp_path)


def test_an_empty_folder_says_what_to_fetch(tmp_path):
    with pytest.raises(DepthlrError, match=r"put cifar-10-binary\.tar\.gz .* or run depthlr data cifar10 --download"):
        load_cifar(CIFAR10, tmp_path)


def test_a_hostile_archive_is_refused_even_with_the_right_digest(tmp_path):
    content = tar_gz({"../../data_batch_1.bin": b"x"})
    folder = tmp_path / "below" / "here"
    folder.mkdir(parents=True)
    (folder / "cifar-10-binary.tar.gz").write_bytes(content)
    layout = replace(CIFAR10.layouts[0], md5={"cifar-10-binary.tar.gz": md5(content)})
    with pytest.raises(DepthlrError, match="points outside"):
        load_cifar(replace(CIFAR10, layouts=(layout,)), folder)
    assert not list(tmp_path.rglob("data_batch_1.bin"))


def test_batches_are_float_images_and_int64_labels(tmp_path):
    data = load_cifar(publish(CIFAR10, 0, tmp_path, archived=False), tmp_path)
    inputs, targets = data.batch(torch.tensor([3, 3, 19]))
    assert (inputs.shape, inputs.dtype, targets.dtype) == ((3, 3, 32, 32), torch.float32, torch.int64)


@pytest.mark.parametrize("change", ["labels", "data"])
def test_a_pickle_without_labels_or_pixels_is_refused(tmp_path, change):
    known = publish(CIFAR10, 1, tmp_path, archived=False)
    path = tmp_path / "cifar-10-batches-py" / "data_batch_1"
    path.write_bytes(path.read_bytes().replace(change.encode(), change.upper().encode()))
    unchecked = tuple(replace(layout, md5={}) for layout in known.layouts)
    with pytest.raises(DepthlrError, match="lacks 'labels' and 'data'"):
        load_cifar(replace(known, layouts=unchecked), tmp_path)


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
