"""CIFAR from every form it is published in."""

import json
import pickle

import numpy as np
import pytest
import torch
from tests.data.published import expected, publish

from depthlr.data.cifar import CIFAR10, CIFAR100, load_cifar
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
    with pytest.raises(DepthlrError, match="cifar10's split is 'val': choose from train, test"):
        load_cifar(known, tmp_path, split="val")
    (tmp_path / "cifar-10-batches-bin" / "test_batch.bin").unlink()
    assert len(load_cifar(known, tmp_path)) == 20
    with pytest.raises(FileNotFoundError, match=r"test_batch\.bin"):
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
    with pytest.raises(DepthlrError, match=r"again|no examples"):
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


def test_batches_are_float_images_and_int64_labels(tmp_path):
    data = load_cifar(publish(CIFAR10, 0, tmp_path, archived=False), tmp_path)
    inputs, targets = data.batch(torch.tensor([3, 3, 19]))
    assert (inputs.shape, inputs.dtype, targets.dtype) == ((3, 3, 32, 32), torch.float32, torch.int64)


class Trap:
    """Unpickled, it would leave a mark."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_pickle_that_calls_something_is_refused_and_not_run(tmp_path):
    known = publish(CIFAR10, 1, tmp_path, archived=False)
    hostile = pickle.dumps({"data": Trap(tmp_path / "sprung")}, protocol=2)
    (tmp_path / "cifar-10-batches-py" / "data_batch_1").write_bytes(hostile)
    with pytest.raises(DepthlrError, match="data_batch_1 has md5"):
        load_cifar(known, tmp_path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("layout", [layout for cifar in (CIFAR10, CIFAR100) for layout in cifar.layouts])
def test_every_archive_and_every_pickle_has_a_published_digest(layout):
    files = (*layout.files, layout.test_file) if layout.pickled else ()
    assert {layout.archive, *files} <= layout.md5.keys()
