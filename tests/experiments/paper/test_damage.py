"""A damaged file of a recipe is one sentence that names it, whether the recipe is resumed or the page rebuilt."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depthlr.errors import DepthlrError
from experiments.paper.page.kept import read_kept
from experiments.paper.page.page import results_page
from experiments.paper.page.pictures import pictures
from experiments.paper.recipes import CIFAR10_CNN, RESNET_ENERGY, VIT_384_EPOCH_3
from experiments.paper.running.jobs import Place, job_of
from experiments.paper.running.run import run_job
from experiments.paper.running.tables import is_fuller
from experiments.running import Deadline, read_facts

GONE = object()


@pytest.fixture(scope="module")
def finished(published, tmp_path_factory):
    """The folders of a sweep that carried rates, and of energies, both run to the end."""
    folder = tmp_path_factory.mktemp("finished")
    for setting in (VIT_384_EPOCH_3, RESNET_ENERGY):
        assert run_job(smoke(setting, folder, published), Deadline())
    return folder


@pytest.fixture
def folder(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def smoke(setting, folder, data):
    return job_of(setting, "smoke", "fp32", data=data, work=folder / "work", out=folder / "out")


def page(folder) -> str:
    kept = read_kept(folder)
    return results_page(kept, list(pictures(kept)))


def named(file):
    return pytest.raises(DepthlrError, match=f"^{re.escape(str(file))} .+: (restore|delete) [^\n]+$")


def without(line: int):
    """The text without that line, from the end if it is negative."""

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        del lines[line]
        return "".join(lines)

    return change


TABLE_DAMAGES = {
    "another column": lambda text: text.replace(",rate", ",speed", 1).replace(",mean", ",median", 1),
    "cut within a line": lambda text: text.rstrip()[: text.rstrip().rindex(",")],
    "cut between lines": without(-1),
    "a line in the middle gone": without(2),
    "the head alone": lambda text: text.splitlines(keepends=True)[0],
    "nothing": lambda text: "",
    "no number": lambda text: re.sub(r",(\d+),", ",x,", text, count=1),
    "not a number": lambda text: re.sub(r",[\d.e-]+\n", ",nan\n", text, count=1),
    "a negative size": lambda text: re.sub(r"^(\w*,)?\d", r"\1-1", text, count=1, flags=re.MULTILINE),
    "a cell too many": lambda text: text.rstrip() + ",1\n",
    "a line twice": lambda text: text + text.splitlines(keepends=True)[-1],
    "an open quote": lambda text: text.replace("\n", '\n"', 1) + "1" * 200_000,
    "no text": lambda text: "\udcff" + text,
}
damaged_table = pytest.mark.parametrize("damage", TABLE_DAMAGES.values(), ids=TABLE_DAMAGES)
# A rule is one line here, and a table from before the last rule was thought of is whole.
damaged_but_for_the_last_line = pytest.mark.parametrize(
    "damage", [pytest.param(d, id=name) for name, d in TABLE_DAMAGES.items() if name != "cut between lines"]
)


def damage_text(file: Path, damage) -> None:
    before = file.read_text()
    after = damage(before)
    assert after != before
    file.write_text(after, errors="surrogateescape")


@damaged_but_for_the_last_line
def test_a_damaged_plan_is_named(folder, published, damage) -> None:
    job = smoke(VIT_384_EPOCH_3, folder, published)
    damage_text(job.work.file("plan.csv"), damage)
    with named(job.work.file("plan.csv")):
        run_job(job, Deadline())


def test_a_plan_with_an_unknown_rule_is_named(folder, published) -> None:
    job = smoke(VIT_384_EPOCH_3, folder, published)
    damage_text(job.work.file("plan.csv"), lambda text: text.replace("law", "lore"))
    with named(job.work.file("plan.csv")):
        run_job(job, Deadline())


@pytest.mark.parametrize(
    ("setting", "kind"), [(VIT_384_EPOCH_3, "plan.csv"), (RESNET_ENERGY, "energies.csv")], ids=["plan", "energies"]
)
def test_what_was_deleted_is_made_again(folder, published, setting, kind) -> None:
    job = smoke(setting, folder, published)
    before = job.work.file(kind).read_text()
    job.work.file(kind).unlink()
    assert run_job(job, Deadline())
    assert job.work.file(kind).read_text() == before


@pytest.mark.parametrize("how", [how for how in TABLE_DAMAGES if how != "the head alone"])  # as at the beginning
def test_damaged_energies_are_named(folder, published, how) -> None:
    job = smoke(RESNET_ENERGY, folder, published)
    damage_text(job.work.file("energies.csv"), TABLE_DAMAGES[how])
    with named(job.work.file("energies.csv")):
        run_job(job, Deadline())


@damaged_but_for_the_last_line
def test_a_damaged_table_of_carried_rates_is_named(folder, published, damage) -> None:
    carried = smoke(VIT_384_EPOCH_3, folder, published).out.file("carried.csv")
    damage_text(carried, damage)
    with named(carried):
        read_kept(folder / "out")


@pytest.mark.parametrize("change", [("law", "lore"), (",0,", ",7,")], ids=["rule", "seed"])
def test_carried_rates_of_no_rule_or_seed_are_named(folder, published, change) -> None:
    carried = smoke(VIT_384_EPOCH_3, folder, published).out.file("carried.csv")
    damage_text(carried, lambda text: text.replace(*change, 1))
    with named(carried):
        read_kept(folder / "out")


def test_a_rule_that_came_later_is_worked_out_alone(folder, published) -> None:
    job = smoke(VIT_384_EPOCH_3, folder, published)
    plan, carried = job.work.file("plan.csv"), job.out.file("carried.csv")
    before, trained = plan.read_text(), carried.read_text()
    damage_text(plan, without(-1))
    damage_text(carried, without(-1))
    assert "| measured | – | not yet measured |" in page(folder / "out")
    assert run_job(job, Deadline())
    assert (plan.read_text(), carried.read_text()) == (before, trained)
    assert "| measured | – | not yet measured |" not in page(folder / "out")


def test_without_carried_rates_the_page_says_so(folder, published) -> None:
    assert "The transfer itself is not yet measured" not in page(folder / "out")
    smoke(VIT_384_EPOCH_3, folder, published).out.file("carried.csv").unlink()
    assert "The transfer itself is not yet measured" in page(folder / "out")


def test_a_missing_table_beside_its_json_is_named(folder, published) -> None:
    table = smoke(VIT_384_EPOCH_3, folder, published).out.file("csv")
    table.unlink()
    with named(table):
        read_kept(folder / "out")


FACTS_DAMAGES = [
    (("complete",), 1),
    (("complete",), "true"),
    (("cells",), True),
    (("cells",), -1),
    (("cells",), "6"),
    (("device",), None),
    (("device",), ["CPU"]),
    (("device",), "\ud800"),
    (("precision",), {}),
    (("versions",), []),
    (("versions",), None),
    (("versions", "torch"), 2),
    (("versions", "numpy"), GONE),
    (("data",), "cifar10"),
    (("data",), {}),
    (("data", "examples"), "20"),
    (("data", "digest"), 7),
    (("sweep_seconds",), "1.5"),
    (("sweep_seconds",), math.nan),
    (("sweep_seconds",), math.inf),
    (("sweep_seconds",), 10**400),
    (("sweep_seconds",), -1.0),
    (("sweep_seconds",), None),
    (("study",), None),
    (("study",), []),
    (("study",), "study"),
    (("study", "colour"), "blue"),
    (("study", "model"), []),
    (("study", "model", "sizes"), "2, 3"),
    (("study", "model", "sizes"), [2, None]),
    (("study", "model", "spec"), 5),
    (("study", "data", "name"), None),
    (("study", "training"), GONE),
    (("study", "training", "steps"), {}),
]
SWEEP_DAMAGES = [
    (("carried_seconds",), "long"),
    (("carried_seconds",), math.nan),
    (("plain_grid_seconds",), [1]),
    (("environments",), {}),
    (("environments",), [None]),
    (("environments",), [{}]),
    (("environments", 0, "torch"), 2),
    (("study", "search", "points"), "many"),
    (("study", "search", "seeds"), 10**400),
    (("study", "search", "low"), math.nan),
]
TEXT_DAMAGES = ["", "[]", "null", "3", '"complete"', "{", "[" * 100_000, '{"complete": true}', "\x00"]


def replaced(content, place, value):
    """A copy of a JSON value with another at a place, or none there."""
    if not place:
        return value
    key, *rest = place
    entries = dict(content) if isinstance(content, dict) else dict(enumerate(content))
    if value is GONE and not rest:
        del entries[key]
    else:
        entries[key] = replaced(entries.get(key), rest, value)
    return entries if isinstance(content, dict) else list(entries.values())


@pytest.mark.parametrize(
    ("setting", "place", "value"),
    [(VIT_384_EPOCH_3, *damage) for damage in FACTS_DAMAGES + SWEEP_DAMAGES]
    + [(RESNET_ENERGY, *damage) for damage in FACTS_DAMAGES],
    ids=lambda one: getattr(one, "name", None),
)
def test_a_wrong_entry_in_the_json_beside_a_table_is_named(folder, published, setting, place, value) -> None:
    file = smoke(setting, folder, published).out.file("json")
    file.write_text(json.dumps(replaced(json.loads(file.read_text()), place, value)))
    with named(file):
        read_kept(folder / "out")


@pytest.mark.parametrize("text", TEXT_DAMAGES, ids=lambda text: text[:9])
@pytest.mark.parametrize("setting", [VIT_384_EPOCH_3, RESNET_ENERGY], ids=lambda one: one.name)
def test_json_that_is_no_object_of_facts_is_named(folder, published, setting, text) -> None:
    file = smoke(setting, folder, published).out.file("json")
    file.write_text(text)
    with named(file):
        read_kept(folder / "out")


def places(content, here=()):
    """Every place in a JSON value, the whole first."""
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [here, *(place for key, value in inside for place in places(value, (*here, key)))]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-10, 100) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.data())
def test_whatever_stands_in_the_json_gives_a_page_or_a_sentence(finished, published, data) -> None:
    setting = data.draw(st.sampled_from([VIT_384_EPOCH_3, RESNET_ENERGY]))
    file = smoke(setting, finished, published).out.file("json")
    before = file.read_text()
    content = json.loads(before)
    place = data.draw(st.sampled_from(places(content)))
    file.write_text(json.dumps(replaced(content, place, data.draw(values if not place else values | st.just(GONE)))))
    try:
        said = page(finished / "out")
    except DepthlrError as error:
        said = str(error) if str(file) in str(error) else ""
    finally:
        file.write_text(before)
    assert said.encode()


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((), []),
        (("provenance",), []),
        (("provenance",), None),
        (("provenance", "versions"), "2.11"),
        (("provenance", "data", "examples"), GONE),
        (("sweep_seconds",), "1.5"),
        (("sweep_seconds",), math.nan),
        (("sweep_seconds",), GONE),
        (("carried_seconds",), None),
        (("plain_cell_seconds",), []),
        (("plain_cell_seconds", "2"), "1.5"),
        (("plain_cell_seconds", "two"), 1.5),
        (("plain_cell_seconds", "2"), math.inf),
    ],
)
@pytest.mark.parametrize("setting", [VIT_384_EPOCH_3, RESNET_ENERGY], ids=lambda one: one.name)
def test_wrong_facts_in_the_work_folder_are_named(folder, published, setting, place, value) -> None:
    job = smoke(setting, folder, published)
    job.facts.write_text(json.dumps(replaced(json.loads(job.facts.read_text()), place, value)))
    with named(job.facts):
        run_job(job, Deadline())


@pytest.mark.parametrize("text", TEXT_DAMAGES, ids=lambda text: text[:9])
def test_facts_that_are_no_object_are_named(tmp_path, text) -> None:
    file = tmp_path / "facts.json"
    file.write_text(text)
    with named(file):
        read_facts(file)


@pytest.mark.parametrize(
    "text", [*TEXT_DAMAGES, '{"complete": "yes", "cells": 99}', '{"complete": false, "cells": Infinity}']
)
def test_a_damaged_table_is_not_fuller_than_any(tmp_path, text) -> None:
    out = Place(tmp_path, "main", CIFAR10_CNN.name, "smoke")
    out.file("json").parent.mkdir()
    out.file("json").write_text(text)
    assert not is_fuller(out, 1)


def test_lost_times_leave_the_page_without_a_ratio(folder, published) -> None:
    """A finished sweep whose facts were lost has taken no time that is known."""
    job = smoke(VIT_384_EPOCH_3, folder, published)
    job.facts.unlink()
    assert run_job(job, Deadline())
    assert json.loads(job.out.file("json").read_text())["sweep_seconds"] == 0
    (row,) = [row for row in page(folder / "out").splitlines() if row.startswith("| zero-shot |")]
    assert row.endswith("| – |")
