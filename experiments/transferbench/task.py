"""A task: a model family at several sizes, an optimizer, data and a schedule, whose best rates are swept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from depthlr.data.examples import Examples
from depthlr.data.sources import parse_name
from depthlr.models.build import build
from depthlr.study.description import Study
from depthlr.trace.depth import Depth, effective_depth
from experiments.examples import load_examples

Split = Literal["dev", "first", "test", "peers"]


@dataclass(frozen=True)
class Task:
    """`study` is the sweep over all sizes; a task of the split `peers` is the `twin` of another, as a peer wants it."""

    name: str
    split: Split
    family: str
    study: Study
    paper_width: bool = False
    sequences: bool = False  # spectrograms are read as sequences, one channel a mel band
    twin: str | None = None  # the task whose model this is in a peer's parametrisation
    rule: str | None = None  # that peer's rule

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What makes it another task than the next: family, optimizer, data, schedule."""
        data, _ = parse_name(self.study.data.name)
        return self.family, self.study.training.optimizer, data, self.study.training.schedule

    def at(self, precision: str) -> Study:
        """The sweep in a precision."""
        return replace(self.study, training=replace(self.study.training, precision=precision))

    def examples(self, data: Path) -> Examples:
        """Its data, `data` being the folder that holds every set."""
        return load_examples(self.study.data.name, data, sequences=self.sequences)

    def depths(self, examples: Examples) -> dict[int, Depth]:
        """The effective depth at each size, counted without allocating a model."""
        model = self.study.model
        return {
            size: effective_depth(*build(model.spec_at(size), input=examples.input, meta=True)) for size in model.sizes
        }
