"""A study small enough to train for every run of the tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from depthlr.data.sources import load
from depthlr.study import Models, Progress, Search, Study, Training, depths_of, sweep
from depthlr.study.tasks import executor_for

STUDY = Study(
    "digits with an mlp",
    Models("mlp?width=8", "layers", (2, 4, 8)),
    Training(steps=5, batch=32),
    search=Search("adaptive", low=1e-3, high=10.0, points=16, seeds=(0, 1)),
)


def named(name: str) -> Study:
    """A few cells of the same, under another name."""
    return replace(STUDY, name=name, search=replace(STUDY.search, kind="grid", points=3, seeds=(0,)))


def run(study: Study, path: Path, progress: Progress | None = None) -> Path:
    examples = load(study.data.name)
    depths = depths_of(study, examples.input)
    with executor_for(study, examples) as executor:
        sweep(study, executor, path, examples=examples, depths=depths, progress=progress)
    return path
