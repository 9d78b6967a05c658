"""The effective depth of each of a study's models, counted without allocating them."""

from __future__ import annotations

from depthlr.models.build import build
from depthlr.study.description import Study
from depthlr.trace.depth import effective_depth


def depths_of(study: Study, input: str | None = None) -> dict[int, int]:
    """Total depth by size; `input` is the shape of one example, as a data set names it."""
    return {
        size: effective_depth(*build(study.model.at(size), input=input, meta=True)).total for size in study.model.sizes
    }
