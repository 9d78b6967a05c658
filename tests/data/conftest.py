"""No test reads or writes the user's own cache, and none uses a proxy to reach this machine."""

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DEPTHLR_CACHE", str(folder))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return folder
