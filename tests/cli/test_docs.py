"""Commands of the documentation that say how to use one's own data work as they are pasted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from depthlr.study import read_results

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "data.md").read_text("utf-8").partition("## Your own data\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"```bash\n(.*?)```", SECTION, re.DOTALL)
STUDIES = ("tokens.sqlite", "rows.sqlite")
SHELL = f"""set -e
python() {{ {sys.executable} "$@"; }}
depthlr() {{ {sys.executable} -m depthlr "$@"; }}
"""


@pytest.mark.parametrize(("block", "study"), list(zip(BLOCKS, STUDIES, strict=True)))
def test_a_command_works_as_pasted(block: str, study: str, tmp_path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "DEPTHLR_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        ["bash", "-c", SHELL + block], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "mean validation loss" in done.stdout
    results = read_results(tmp_path / study)
    assert results.complete
    assert not results.failures
    assert {"validation", "budget", "error"} <= set(results.metrics)
