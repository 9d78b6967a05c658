"""Data once for all tests, and a cache of no one."""

from __future__ import annotations

import pytest
from tests.experiments.paper.publishers import publish_all

from experiments.paper.running.jobs import job_of


@pytest.fixture(scope="module", autouse=True)
def published(tmp_path_factory):
    """The folder of all data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPTHLR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield publish_all(tmp_path_factory.mktemp("data"), patch)


@pytest.fixture
def job(published, tmp_path):
    """A setting's smoke, in folders of this test's."""

    def job(setting, work="work", out="out"):
        return job_of(setting, "smoke", "fp32", data=published, work=tmp_path / work, out=tmp_path / out)

    return job
