"""One study ends in the same table, to the byte, whatever trains its cells."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from experiments.cluster.same import WAYS, given, in_process
from experiments.faults.__main__ import PAGE
from experiments.faults.__main__ import TABLE as FAULTS
from experiments.faults.__main__ import page_table as faults_table
from experiments.fuzz.__main__ import TABLE as FUZZ
from experiments.fuzz.__main__ import page_table as fuzz_table
from experiments.one_machine import Unavailable


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> str:
    return in_process(given(tmp_path_factory.mktemp("here")))


@pytest.mark.parametrize("way", [way for way, run in WAYS.items() if run is not in_process])
def test_every_way_of_training_gives_the_same_table(way: str, table: str, tmp_path) -> None:
    try:
        assert WAYS[way](given(tmp_path)) == table
    except Unavailable as error:
        pytest.skip(str(error))


def test_the_page_shows_the_tables_that_were_kept() -> None:
    page = PAGE.read_text("utf-8")
    assert faults_table() in page
    assert fuzz_table() in page
    assert all(row["lost"] == row["twice"] == row["other_tables"] == 0 for row in json.loads(FAULTS.read_text()))
    assert all(row["crashes"] == 0 for row in json.loads(FUZZ.read_text()))


def test_ray_accepts_the_cluster_file_of_the_page() -> None:
    validation = pytest.importorskip("ray.autoscaler._private.util")
    (text,) = re.findall(r"^```yaml\n(# cluster\.yaml\n.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    validation.validate_config(validation.prepare_config(yaml.safe_load(text)))
    wrong = yaml.safe_load(text.replace("head_node_type: head", "head_node_type: 3"))
    with pytest.raises(Exception, match=r"3 is not of type"):
        validation.validate_config(validation.prepare_config(wrong))
