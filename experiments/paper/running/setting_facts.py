"""What the JSON beside a setting's table says of it: how far it came, what ran it, the times, the study."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.study.description import Study, study_from_dict
from depthlr.study.record import Environment
from experiments.running import PROVENANCE, SAMPLED
from experiments.tables import Shape, an_object, damaged, or_else, read_text, shaped, truth

ENVIRONMENT = an_object({field.name: check.text for field in fields(Environment)})


def read_setting_facts(file: Path) -> dict[str, Any]:
    """The entries of FACTS."""
    text = read_text(file)
    try:
        return shaped(text, FACTS)
    except (ValueError, OverflowError) as error:  # an integer of JSON may be too large for anything
        raise damaged(file, f"is no JSON of a setting ({error})") from error


def _environments(name: str, value: Any) -> tuple[Environment, ...]:
    """None in a file from before they were kept."""
    if not isinstance(value, list | None):
        raise DepthlrError(f"{name} is no list")
    return tuple(Environment(**ENVIRONMENT(name, one)) for one in value or ())


def _study(name: str, value: Any) -> Study:
    if not isinstance(value, dict):
        raise DepthlrError(f"{name} is no object")
    return study_from_dict(value)


FACTS: Shape = {
    "complete": truth,
    "cells": partial(check.count, least=0),
    **PROVENANCE,
    "environments": _environments,
    "at_once": or_else(1, check.count),
    "sweep_seconds": check.number,
    "carried_seconds": or_else(None, check.number),
    "plain_grid_seconds": or_else(None, check.number),
    "plain_grid_is": or_else(SAMPLED, check.text),
    "study": _study,
}
