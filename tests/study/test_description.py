"""A study's description: strict, canonical, and the same after any round trip."""

import json
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.optimizers import OPTIMIZERS
from depthlr.study import Data, Models, Search, Study, Training, parse_study, study_from_dict, to_toml
from depthlr.study.description import SEARCHES, difference, read_study
from depthlr.training.training import CHOICES, SCHEDULES, WARMING

TEXT = """
name = "first"
[model]
spec = "resnet?width=64"
vary = "blocks"
sizes = [3, 4, 6]
[training]
steps = 100
"""

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1).filter(str.strip)
counts = st.integers(1, 10**6)
shares = st.floats(0, 1, exclude_max=True)
models = st.builds(
    Models,
    st.sampled_from(["resnet?width=64", "resnet", "resnet?activation=gelu&width=8"]),
    st.just("blocks"),
    st.sets(counts, min_size=1, max_size=6).map(sorted).map(tuple),
)
held_out = st.floats(0, 1, exclude_min=True, exclude_max=True) | counts | st.just("test")
loaders = st.none() | st.integers(1, 256)
data = st.builds(
    Data, st.sampled_from(["digits", "images?size=32"]), st.none() | names, st.none() | counts, held_out, loaders
)


@st.composite
def trainings(draw):
    optimizer = draw(st.sampled_from(OPTIMIZERS))
    schedule = draw(st.sampled_from(list(SCHEDULES)))
    budget = draw(st.sampled_from(["steps", "epochs"]))
    return Training(
        optimizer,
        draw(st.none() | shares) if optimizer == "momentum" else None,
        draw(st.floats(0, 1e14)),
        schedule,
        draw(st.none() | shares.filter(bool)) if schedule in WARMING else None,
        draw(counts),
        precision=draw(st.sampled_from(CHOICES["precision"])),
        metric=draw(st.sampled_from(CHOICES["metric"])),
        variance=draw(st.sampled_from(CHOICES["variance"])),
        branch_scale=draw(st.sampled_from(CHOICES["branch_scale"])),
        betas=draw(st.none() | st.tuples(shares, shares)) if optimizer in {"adam", "adamw", "muon"} else None,
        decay=draw(st.none() | st.sampled_from(CHOICES["decay"])),
        clip=draw(st.none() | st.floats(1e-3, 10)),
        ema=draw(st.none() | shares),
        label_smoothing=draw(st.none() | shares),
        augment=draw(st.none() | st.sampled_from([("flip",), ("flip", "crop=4"), ("mixup=0.2",), "mine:transform"])),
        evaluate_at=draw(st.none() | st.tuples(shares.filter(bool))),
        **{budget: draw(counts)},
    )


searches = st.builds(
    lambda kind, low, span, points, seeds: Search(kind, low, low * span, points, seeds),
    st.sampled_from(SEARCHES),
    st.floats(1e-9, 1),
    st.floats(1.5, 1e8),
    st.integers(3, 100),
    st.sets(st.integers(0, 10**6), min_size=1, max_size=5).map(tuple),
)
studies = st.builds(Study, names, models, trainings(), data, searches)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(studies)
def test_a_study_is_the_same_after_toml_and_json(study):
    for again in (parse_study(to_toml(study)), study_from_dict(json.loads(json.dumps(study.to_dict())))):
        assert again == study
        assert again.digest == study.digest
        assert difference(study, again) == []
        assert again.search.rates == study.search.rates


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(studies, studies)
def test_studies_differ_in_digest_exactly_when_they_differ_in_more_than_name_folder_and_loaders(one, other):
    lines = [line for line in difference(one, other) if not line.startswith(("name:", "data.folder:", "data.loaders:"))]
    assert (one.digest != other.digest) == bool(lines)


def test_the_smallest_study_has_the_papers_search():
    study = parse_study(TEXT)
    assert (study.name, study.model.sizes, study.data.name) == ("first", (3, 4, 6), "digits")
    assert (study.training.optimizer, study.training.steps) == ("sgd", 100)
    assert study.search == Search("adaptive", 1e-4, 10.0, 80, (0, 1, 2))
    assert np.diff(np.log10(study.search.rates)) == pytest.approx(study.search.spacing)
    assert str(study.model.spec_at(6)) == "resnet?blocks=6&width=64"


def test_a_number_of_seeds_stands_for_the_first_ones():
    assert parse_study(TEXT + "[search]\nseeds = 4").search.seeds == (0, 1, 2, 3)


def test_what_is_left_out_is_written_out():
    study = parse_study(TEXT + '[search]\nlow = 1\nhigh = 10\n[data]\nname = "digits"')
    assert study.search.low == 1.0
    assert isinstance(study.search.low, float)
    momentum = Training(optimizer="momentum", steps=1)
    assert momentum == Training(optimizer="momentum", momentum=0.9, steps=1)


def test_the_difference_names_every_entry_that_changed():
    old, new = parse_study(TEXT), parse_study(TEXT.replace("steps = 100", "epochs = 2\nbatch = 64"))
    assert difference(old, new) == [
        "training.batch: 128 -> 64",
        "training.steps: 100 -> not set",
        "training.epochs: not set -> 2",
    ]


def test_a_file_gives_the_study_its_name(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace('name = "first"', ""))
    assert read_study(path).name == "mine"
    with pytest.raises(DepthlrError, match=r"no\.toml cannot be read"):
        read_study(tmp_path / "no.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 100", "step = 100", "unknown entry 'step' .did you mean 'steps'"),
        ("[training]", "[trainings]", "unknown entry 'trainings' .did you mean 'training'"),
        ("steps = 100", "", "neither of steps and epochs"),
        ("steps = 100", "steps = 1\nepochs = 1", "both of steps and epochs"),
        ("steps = 100", "steps = 0", "training.steps is 0"),
        ("steps = 100", "epochs = true", "training.epochs is True"),
        ("steps = 100", "steps = 1.5", "training.steps is 1.5"),
        ("steps = 100", f"steps = {10**20}", "training.steps is 1000.*: give a whole number of at most 10,000,000"),
        ("steps = 100", f"epochs = {10**20}", "training.epochs is 1000.*: give a whole number of at most 10,000,000"),
        ("steps = 100", "steps = 1\nweight_decay = 1e308", r"weight_decay is 1e\+308: .* below 1e\+15"),
        (
            "steps = 100",
            "steps = 1\n[search]\nlow = 5e-324\nhigh = 1e308",
            r"search.high is 1e\+308: .* at most 1e\+15",
        ),
        ("steps = 100", "steps = 1\noptimizer = 'sdg'", "'sdg' .did you mean 'sgd'"),
        ("steps = 100", "steps = 1\nmomentum = 0.9", "sgd takes none"),
        ("steps = 100", "steps = 1\noptimizer = 'momentum'\nmomentum = 1", "below 1"),
        ("steps = 100", "steps = 1\nwarmup = 0.1", "is constant: .* warmup, warmup-cosine, warmup-linear or wsd.$"),
        ("steps = 100", "steps = 1\nschedule = 'wsd'\nwarmup = 0", "is 0: .* 0.1, or a schedule without a warm-up.$"),
        ("steps = 100", "steps = 1\nweight_decay = -1", "training.weight_decay is -1"),
        ("steps = 100", "steps = 1\nweight_decay = nan", "training.weight_decay is nan"),
        ("steps = 100", "steps = 1\nprecision = 'fp16'", "choose from fp32, tf32, bf16"),
        ("steps = 100", "steps = 1\nmetric = 'epoch'", "choose from budget, last_epoch"),
        ("steps = 100", "steps = 1\nbranch_scale = 3", "training.branch_scale is 3"),
        ("steps = 100", "steps = 1\n[search]\nlow = 0", "search.low is 0"),
        ("steps = 100", "steps = 1\n[search]\nlow = -1e-3", "search.low is -0.001"),
        ("steps = 100", "steps = 1\n[search]\nhigh = inf", "search.high is inf"),
        ("steps = 100", "steps = 1\n[search]\nhigh = nan", "search.high is nan"),
        ("steps = 100", f"steps = 1\n[search]\nhigh = 1{'0' * 400}", "search.high is 1000"),
        ("steps = 100", "steps = 1\n[search]\nlow = 'x'", "search.low is 'x'"),
        ("steps = 100", "steps = 1\n[search]\nlow = 1\nhigh = 1", "must be below"),
        ("steps = 100", "steps = 1\n[search]\nlow = 1\nhigh = 1.000000001", "so close that some are equal"),
        ("steps = 100", "steps = 1\n[search]\npoints = 2", "search.points is 2"),
        ("steps = 100", "steps = 1\n[search]\npoints = 10001", "search.points is 10001: .* at most 10,000"),
        ("steps = 100", "steps = 1\n[search]\nseeds = []", "search.seeds is"),
        ("steps = 100", "steps = 1\n[search]\nseeds = 0", "search.seeds is 0: give a whole number of at least 1"),
        ("steps = 100", "steps = 1\n[search]\nseeds = -1", "search.seeds is -1: give a whole number of at least 1"),
        ("steps = 100", "steps = 1\n[search]\nseeds = 1001", "search.seeds is 1001: .* at most 1,000"),
        ("steps = 100", "steps = 1\n[search]\nseeds = [1, 1]", "search.seeds has 1 twice"),
        ("steps = 100", "steps = 1\n[search]\nseeds = [1.0]", "an entry of search.seeds is 1.0"),
        ("steps = 100", "steps = 1\n[search]\nkind = 'gird'", "did you mean 'grid'"),
        ("steps = 100", "steps = 1\n[data]\nname = 'cifar'", "no data set 'cifar'"),
        ("steps = 100", "steps = 1\n[data]\nlimit = 0", "data.limit is 0"),
        ("[3, 4, 6]", "[3, 6, 4]", "from small to large"),
        ("[3, 4, 6]", "[3, 3]", "has 3 twice"),
        ("[3, 4, 6]", "[0, 3]", "an entry of model.sizes is 0"),
        ("[3, 4, 6]", f"[3, {10**20}]", "an entry of model.sizes is 1000.* at most 1,000,000"),
        ("[3, 4, 6]", "3", "give a list"),
        ("[3, 4, 6]", "'346'", "give a list"),
        ('vary = "blocks"', "", "lacks vary"),
        ('vary = "blocks"', 'vary = "layers"', "no argument of resnet: write blocks"),
        ("resnet?width=64", "resnet?width=64&blocks=3", "leave blocks out"),
        ("resnet?width=64", "restnet", "did you mean 'resnet'"),
        ('name = "first"', "name = 3", "name is 3"),
        ("[model]", "[model", "no TOML"),
        ('name = "first"', "search = 3", "write it as a table"),
    ],
)
def test_what_is_wrong_is_one_sentence(old, new, message):
    assert old in TEXT
    with pytest.raises(DepthlrError, match=message) as caught:
        parse_study(TEXT.replace(old, new))
    assert "\n" not in str(caught.value)


def test_many_sizes_are_not_compared_with_each_other():
    compared = []

    class Counted(int):
        __hash__ = int.__hash__

        def __eq__(self, other):
            compared.append(other)
            return int(self) == int(other)

    sizes = [Counted(size) for size in range(1, 2001)]
    assert list(check.counts("model.sizes", sizes, least=1)) == sizes
    assert len(compared) <= 3 * len(sizes)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, True, "1", None])
def test_python_is_checked_as_toml_is(value):
    with pytest.raises(DepthlrError, match=r"search\.low"):
        Search(low=value)


def test_a_byte_order_mark_is_no_part_of_a_study(tmp_path):
    plain, marked = tmp_path / "plain.toml", tmp_path / "marked.toml"
    plain.write_text(TEXT, encoding="utf-8")
    marked.write_text(TEXT, encoding="utf-8-sig")
    assert read_study(marked).digest == read_study(plain).digest


@pytest.mark.parametrize("vary", ["depth", "seed", "seeds", "cells", "fit"])
def test_an_argument_is_never_named_as_another_column(vary):
    assert Models("their:net", vary, (2, 3)).size_name == f"{vary} (argument)"
    assert Models("their:net", f"{vary}_", (2, 3)).size_name == f"{vary}_"
