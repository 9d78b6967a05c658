"""The data of a study: what it trains on and is evaluated on, their digest, and the length of an epoch."""

from __future__ import annotations

import hashlib

from depthlr.data.batches import steps_per_epoch
from depthlr.data.examples import Examples, split
from depthlr.data.sources import load, load_parts, parse_name
from depthlr.python_name import is_python_name
from depthlr.study.description import Study


def load_data(study: Study) -> tuple[Examples, Examples | None]:
    """The examples that a study trains on, and those that it is evaluated on, if any.

    Args:
        study: The study.
    """
    data, held_out = study.data, study.data.validation
    if held_out is None:
        return load(data.name, data.folder), None
    if isinstance(held_out, str) and is_python_name(parse_name(held_out)[0]):
        return load(data.name, data.folder), load(held_out, data.folder)
    if isinstance(held_out, str):
        return load_parts(data.name, held_out, data.folder)
    return split(load(data.name, data.folder), held_out)


def data_digest(examples: Examples | None, held_out: Examples | None = None) -> str | None:
    """What a study's file remembers of its data: the digest of the examples, or of both parts.

    Args:
        examples: The training data. None if another program has them.
        held_out: What cells are evaluated on, if anything.
    """
    if examples is None or held_out is None:
        return None if examples is None else examples.digest
    return hashlib.sha256(f"{examples.digest} {held_out.digest}".encode()).hexdigest()


def epoch_steps(study: Study, examples: Examples) -> int:
    """Steps in one pass over the examples that the study takes.

    Args:
        study: The study.
        examples: What it trains on.
    """
    count = len(examples) if study.data.limit is None else min(len(examples), study.data.limit)
    return steps_per_epoch(count, study.training.batch)
