"""A folder of images, one folder a class."""

import pickle
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from depthlr.data import load
from depthlr.data.images import load_images
from depthlr.data.sets import channel_moments
from depthlr.data.sources import load_parts
from depthlr.errors import DepthlrError


@pytest.fixture
def folder(tmp_path):
    """Two classes of three images, of several sizes and modes."""
    generator = np.random.default_rng(0)
    for label in ("cat", "dog"):
        place = tmp_path / "set" / "train" / label
        place.mkdir(parents=True)
        for i, (height, width) in enumerate([(8, 8), (20, 12), (9, 31)]):
            pixels = generator.integers(256, size=(height, width, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(place / f"{label}_{i}.png")
    Image.fromarray(pixels[..., 0]).save(place / "grey.JPEG")
    return tmp_path / "set"


def test_every_image_becomes_a_square_of_its_class(folder):
    data = load_images(folder, size=8)
    assert data.inputs.shape == (7, 3, 8, 8)
    assert data.targets.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert (data.classes, data.input) == (2, "3x8x8")


def test_an_image_of_the_right_size_is_unchanged(folder):
    data = load_images(folder, size=8)
    pixels = np.asarray(Image.open(folder / "train" / "cat" / "cat_0.png"))
    np.testing.assert_array_equal(data.inputs[0].numpy(), pixels.transpose(2, 0, 1))


def test_the_middle_is_kept(tmp_path):
    for label, column in (("in", 5), ("out", 0)):
        pixels = np.zeros((4, 12, 3), np.uint8)
        pixels[:, column] = 255
        (tmp_path / label).mkdir()
        Image.fromarray(pixels).save(tmp_path / label / "a.png")
    inside, outside = load_images(tmp_path, size=4).inputs
    assert inside[:, :, 1].min() == 255
    assert outside.max() == 0


def test_a_second_load_decodes_nothing_and_is_the_same(folder, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    first = load_images(folder, size=8, cache=str(kept))
    assert len(list(kept.iterdir())) == 1
    monkeypatch.setitem(sys.modules, "PIL", None)
    second = load_images(folder, size=8, cache=str(kept))
    assert (first.digest, first.mean) == (second.digest, second.mean)
    with pytest.raises(DepthlrError, match=r"pip install depthlr\[images\]"):
        load_images(folder, size=4, cache=str(kept))  # another size is another set


@pytest.mark.parametrize("damage", ["cut", "changed", "noise"])
def test_a_damaged_cache_is_made_again(folder, tmp_path, damage):
    kept = tmp_path / "kept"
    first = load_images(folder, size=8, cache=str(kept))
    (path,) = kept.iterdir()
    content = path.read_bytes()
    if damage == "changed":
        np.savez(path, inputs=first.inputs.numpy() ^ 1, digest=np.load(path)["digest"])
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"noise")
    assert load_images(folder, size=8, cache=str(kept)).digest == first.digest
    assert np.array_equal(np.load(path)["inputs"], first.inputs.numpy())


def test_a_cache_that_cannot_be_written_costs_only_time(folder, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    assert len(load_images(folder, size=8, cache=str(tmp_path / "file" / "below"))) == 7


def test_a_changed_image_is_refused(folder):
    load_images(folder, size=8)
    Image.new("RGB", (8, 8)).save(folder / "train" / "cat" / "cat_0.png")
    with pytest.raises(DepthlrError, match=r"but had .* when it was first loaded"):
        load_images(folder, size=8)


def test_a_broken_image_is_named_and_nothing_is_kept(folder, cache):
    path = folder / "train" / "dog" / "dog_1.png"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(DepthlrError, match=r"dog_1\.png cannot be read as an image"):
        load_images(folder, size=8)
    assert not any(cache.iterdir())
    assert not (folder / "train" / "depthlr-digests.json").exists()


def test_an_image_beside_the_classes_is_refused(folder):
    Image.new("RGB", (8, 8)).save(folder / "train" / "stray.png")
    with pytest.raises(DepthlrError, match=r"stray\.png lies beside the class folders"):
        load_images(folder)


def test_the_layout_of_tiny_imagenet_is_understood(tmp_path):
    for wnid in ("n01", "n02"):
        (tmp_path / "train" / wnid / "images").mkdir(parents=True)
        Image.new("RGB", (9, 9)).save(tmp_path / "train" / wnid / "images" / f"{wnid}_0.JPEG")
    assert load("images?size=4", tmp_path).classes == 2


def test_a_split_has_the_classes_of_the_training_part(folder):
    (folder / "val" / "dog").mkdir(parents=True)
    Image.new("RGB", (8, 8), "red").save(folder / "val" / "dog" / "a.png")
    train, val = load_parts("images?size=8", "val", folder)
    assert (len(train), len(val), val.classes) == (7, 1, 2)
    assert val.targets.tolist() == [1]  # it would be 0 among the classes of val alone
    assert (val.mean, val.std) == (train.mean, train.std)
    with pytest.raises(DepthlrError, match=r"test holds no \.jpeg"):
        load("images?size=8", folder, split="test")
    (folder / "val" / "cow").mkdir()
    Image.new("RGB", (8, 8)).save(folder / "val" / "cow" / "a.png")
    with pytest.raises(DepthlrError, match="has the class 'cow', which"):
        load("images?size=8", folder, split="val")


def test_images_that_stay_in_their_files_make_the_same_batches(folder, cache):
    held, read = load("images?size=8", folder), load("images?size=8&in_memory=false", folder)
    assert (len(read), read.classes, read.input, read.mean) == (len(held), held.classes, held.input, held.mean)
    indices = torch.tensor([6, 0, 3, 3])
    for one, other in zip(pickle.loads(pickle.dumps(read)).batch(indices), held.batch(indices), strict=True):
        assert torch.equal(one, other)
    assert read.digest != held.digest  # it is sampled
    assert read.to("cpu") is read
    assert read.on_host


def test_images_that_stay_in_their_files_are_not_cached_and_a_change_is_refused(folder, cache):
    load("images?size=8&in_memory=false", folder)
    assert not any(cache.iterdir())
    Image.new("RGB", (8, 8)).save(folder / "train" / "cat" / "cat_0.png")
    with pytest.raises(DepthlrError, match=r"but had .* when it was first loaded"):
        load("images?size=8&in_memory=false", folder)
    with pytest.raises(DepthlrError, match="in_memory is 'maybe': choose from true, false"):
        load("images?in_memory=maybe", folder)


def test_mean_and_std_of_many_images_are_those_of_a_sample(folder, monkeypatch):
    monkeypatch.setattr("depthlr.data.images.MOMENT_FILES", 2)
    sampled = load("images?size=8&in_memory=false", folder)
    held = load("images?size=8", folder)
    assert sampled.mean == channel_moments(held.inputs[[0, 6]])[0]
    train, val = load_parts("images?size=8&in_memory=false", "train", folder)
    assert val.mean == train.mean


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(DepthlrError, match=r"holds no \.jpeg"):
        load_images(tmp_path)
    with pytest.raises(DepthlrError, match=r"nowhere holds no \.jpeg"):
        load_images(tmp_path / "nowhere")
