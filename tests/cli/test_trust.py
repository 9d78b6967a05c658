"""Code that a study names: a received store runs it only if it is trusted."""

from __future__ import annotations

import pytest

from depthlr.study.description import study_from_dict


def test_code_that_a_store_names_runs_only_if_it_is_trusted(run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text(
        "from pathlib import Path\nimport torch\n\n"
        "def loss(output, target):\n"
        "    Path('ran').touch()\n"
        "    return torch.nn.functional.cross_entropy(output, target)\n"
    )
    arguments = ["--model", "mlp?width=4", "--sizes", "1,2", "--steps", "2", "--seeds", "1", "--points", "3"]
    run("sweep", *arguments, "--search", "grid", "--loss", "theirs:loss", "--out", "theirs.sqlite", "--workers", "1")
    (tmp_path / "ran").unlink()
    code, out, err = run("sweep", "theirs.sqlite")
    assert (code, out) == (2, "")
    assert "theirs.sqlite names code that a sweep would run: theirs:loss. Add --trust" in err
    assert not (tmp_path / "ran").exists()
    assert run("sweep", "theirs.sqlite", "--trust")[0] == 0
    assert run("report", "theirs.sqlite", "--out", "page.html")[0] == 0


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ({"model": {"spec": "mine:net?width=4", "vary": "layers", "sizes": [1, 2]}}, ("mine:net?width=4",)),
        ({"data": {"name": "mine:data", "validation": "mine:held_out"}}, ("mine:data", "mine:held_out")),
        ({"training": {"steps": 2, "loss": "mine:loss", "augment": "mine:flip"}}, ("mine:loss", "mine:flip")),
        ({"training": {"command": "python train.py {rate} {size} {seed}"}}, ("python train.py {rate} {size} {seed}",)),
        ({}, ()),
    ],
)
def test_a_study_lists_the_code_it_names(entries, named) -> None:
    tables = {"model": {"spec": "mlp?width=4", "vary": "layers", "sizes": [1, 2]}, "training": {"steps": 2}}
    assert set(study_from_dict({"name": "study", **tables, **entries}).named_code) == set(named)
