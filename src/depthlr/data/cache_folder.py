"""Where depthlr keeps what it can make again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """$DEPTHLR_CACHE, else depthlr/ in the user's cache folder."""
    if named := os.environ.get("DEPTHLR_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "depthlr"
