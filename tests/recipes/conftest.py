"""Data once for all tests, and a cache of no one."""

from __future__ import annotations

import pytest
from tests.recipes.publishers import publish_all


@pytest.fixture(scope="module", autouse=True)
def published(tmp_path_factory):
    """The folder of all data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEPTHLR_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield publish_all(tmp_path_factory.mktemp("data"), patch)
