"""Loading by name."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.data.published import publish

from depthlr.data import SOURCES, load
from depthlr.data.cifar import CIFAR10, load_cifar
from depthlr.data.sources import load_parts, parse_name
from depthlr.errors import DepthlrError


def test_digits_need_no_folder():
    data = load("digits")
    assert (len(data), data.classes, data.input) == (1797, 10, "1x8x8")
    assert data.digest == load("digits", "/nowhere").digest


def test_options_go_by_name_or_in_the_name(tmp_path):
    (tmp_path / "input.txt").write_text("hello there")
    assert load("text?context=5", tmp_path).input == load("text", str(tmp_path), context=5).input == "ids:5:7"
    assert load("text?context=5", tmp_path, context=3).input == "ids:3:7"


def test_every_set_says_whose_it_is(tmp_path):
    (tmp_path / "input.txt").write_text("hello there")
    for name in ("digits", "text?context=2"):
        data = load(name, tmp_path)
        assert data.attribution
        assert len(data.digest) == 64
        assert data.batch(torch.tensor([0, 1]))[1].dtype == torch.int64


def test_a_named_split_is_normalized_like_the_training_part(tmp_path, monkeypatch):
    cifar = publish(CIFAR10, 0, tmp_path, archived=True)
    monkeypatch.setitem(SOURCES, "cifar10", replace(SOURCES["cifar10"], read=partial(load_cifar, cifar)))
    train, test = load_parts("cifar10", "test", tmp_path)
    assert (len(train), len(test)) == (20, 4)
    assert (test.mean, test.std) == (train.mean, train.std)
    assert test.digest != train.digest
    again = load("cifar10", tmp_path, split="test")
    assert torch.equal(again.batch(torch.arange(4))[0], test.batch(torch.arange(4))[0])


@pytest.mark.parametrize("name", ["digits", "text"])
def test_a_set_without_splits_says_so(name, tmp_path):
    with pytest.raises(DepthlrError, match=f"{name} has no split 'test': hold out a share of it, such as 0.1"):
        load(name, tmp_path, split="test")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(DepthlrError, match=f"choose from {', '.join(SOURCES)}"):
        load("mnist")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits?size=8", "takes no options"),
        ("images?sice=8", "no option 'sice': it takes size, cache"),
        ("images?size=big", "whole number of at least 1"),
        ("images?size=0", "whole number of at least 1"),
        ("images?size=-3", "whole number of at least 1"),
        ("images?size", "'size' of images is not of the form key=value, such as size=64"),
        ("images?size=1&size=2", "'size' of images is given twice"),
    ],
)
def test_a_wrong_option_is_refused(tmp_path, name, message):
    with pytest.raises(DepthlrError, match=message):
        load(name, tmp_path)


@pytest.mark.parametrize("name", ["images", "wav", "text"])
def test_a_set_of_your_own_needs_its_folder(name):
    with pytest.raises(DepthlrError, match="name it, as in depthlr data"):
        load(name)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_without_a_folder_the_cache_is_searched(name, cache):
    with pytest.raises(DepthlrError, match=f"{cache}/data holds no {name}"):
        load(name)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "images", "wav", "text"])
def test_a_folder_that_is_not_there_is_said(name, tmp_path):
    with pytest.raises(DepthlrError, match="nowhere"):
        load(name, tmp_path / "nowhere")


def test_a_name_and_its_options():
    assert parse_name("images?size=64&cache=/tmp/a=b") == ("images", {"size": "64", "cache": "/tmp/a=b"})
    assert parse_name("digits") == ("digits", {})


def test_an_option_may_stand_in_quotes():
    assert parse_name('images?cache="/tmp/a&b=c"') == ("images", {"cache": "/tmp/a&b=c"})
