"""CIFAR from every form it is published in."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.data.published import expected, md5, publish, tar_gz

from depthlr.data.cifar import load_cifar
from depthlr.data.cifar_layout import CIFAR10, CIFAR100
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
