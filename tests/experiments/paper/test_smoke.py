"""Every recipe runs from its data to its tables and its part of the page."""

from __future__ import annotations

import json

import pytest

from experiments.paper.page.kept import read_kept
from experiments.paper.page.page import results_page
from experiments.paper.page.pictures import drawn, pictures
from experiments.paper.recipes import RECIPES
from experiments.paper.running.jobs import Place, chosen, home, job_of
from experiments.paper.running.run import run_job
from experiments.paper.settings import EnergySetting
from experiments.running import Deadline


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Work and tables, shared by the recipes as a user's would be: what one has run, the next finds."""
    return tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("out")


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_runs_end_to_end(recipe: str, published, folders) -> None:
    work, out = folders
    for setting in chosen([recipe]):
        assert run_job(job_of(setting, "smoke", "fp32", data=published, work=work, out=out), Deadline())
        place = Place(out, home(setting).name, setting.name, "smoke")
        facts = json.loads(place.file("json").read_text())
        assert facts["complete"] is True
        described = setting.study("smoke").to_dict()
        assert facts["study"] == {key: described[key] for key in facts["study"]}, "no machine's path in it"
        assert {"model", "data", "training"} <= set(facts["study"])
        assert len(facts["data"]["digest"]) == 64
        assert facts["versions"]["torch"]
        if not isinstance(setting, EnergySetting):
            assert (facts["plain_grid_seconds"] is not None) == (setting.scan is None), "a scan replaces no grid"
    kept = read_kept(out)
    for setting in chosen([recipe]):
        assert setting.name in {*kept.sweeps, *kept.energies}
    panels = pictures(kept)
    page = results_page(kept, list(panels))
    assert page == results_page(read_kept(out), list(panels)), "the page is a function of the tables"
    assert "{{" not in page
    for name in [name for name in panels if name.split(".")[0] == recipe]:
        assert f"(images/results/{name}.png)" in page
        assert drawn(panels[name]).startswith(b"\x89PNG")
