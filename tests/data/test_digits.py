"""The digits that ship with depthlr."""

import io
import sys

import numpy as np
import pytest
import torch

from depthlr.data import digits_batch, load_digits
from depthlr.errors import DepthlrError


def test_digits_are_the_uci_test_set():
    data = load_digits()
    images, labels = data.inputs, data.targets
    assert images.shape == (1797, 1, 8, 8)
    assert images.dtype == torch.uint8
    assert images.max() == 16
    assert labels.dtype == torch.int64
    assert labels.bincount().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert labels[:10].tolist() == list(range(10))
    assert images[0, 0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]  # the first row of the first zero


def test_a_changed_file_is_refused(monkeypatch, tmp_path):
    data = load_digits()
    images, labels = data.inputs.numpy().copy(), data.targets.numpy()
    images[3, 0, 4, 4] ^= 1
    np.savez(tmp_path / "digits.npz", images=images, labels=labels.astype(np.uint8))
    monkeypatch.setattr(sys.modules["depthlr.data.digits"], "files", lambda package: tmp_path)
    with pytest.raises(DepthlrError, match="install depthlr again"):
        load_digits()


def test_a_pickle_is_never_loaded(monkeypatch, tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, images=np.array([{}], dtype=object), labels=np.zeros(1))
    (tmp_path / "digits.npz").write_bytes(buffer.getvalue())
    monkeypatch.setattr(sys.modules["depthlr.data.digits"], "files", lambda package: tmp_path)
    with pytest.raises(ValueError, match="allow_pickle"):
        load_digits()


def test_all_digits_together_have_mean_0_and_variance_1():
    images, _ = digits_batch(1797, seed=0)
    assert images.dtype == torch.float32
    assert images.mean() == pytest.approx(0, abs=1e-5)
    assert images.var(correction=0) == pytest.approx(1, abs=1e-5)


def test_batches_follow_the_seed_and_repeat_no_digit():
    images, labels = digits_batch(1797, seed=1)
    again, labels_again = digits_batch(64, seed=1)
    other, _ = digits_batch(64, seed=2)
    assert torch.equal(images[:64], again)
    assert torch.equal(labels[:64], labels_again)
    assert not torch.equal(again, other)
    assert labels.bincount().equal(load_digits().targets.bincount())


def test_images_keep_their_labels():
    data = load_digits()
    images, labels = data.inputs, data.targets
    by_image = {tuple(i.flatten().tolist()): int(y) for i, y in zip(images, labels, strict=True)}
    x = images.double()
    for image, label in zip(*digits_batch(50, seed=3), strict=True):
        raw = (image.double() * x.std(correction=0) + x.mean()).round().to(torch.uint8)
        assert by_image[tuple(raw.flatten().tolist())] == label


def test_changing_a_batch_does_not_change_the_next():
    first, _ = digits_batch(8, seed=0)
    kept = first.clone()
    first.zero_()
    assert torch.equal(digits_batch(8, seed=0)[0], kept)


@pytest.mark.parametrize("size", [0, 1798])
def test_a_batch_of_impossible_size_is_refused(size):
    with pytest.raises(DepthlrError, match="from 1 to 1797"):
        digits_batch(size, seed=0)
