"""What a store knows besides its cells, kept as JSON by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.study.description import Study
from depthlr.study.environment import Environment, read_environment
from depthlr.study.toml import study_from_dict


@dataclass(frozen=True)
class Facts:
    """The study, and what its runs added to it."""

    study: Study
    data_digest: str | None
    depths: Mapping[int, int] | None  # effective depth by size, if it was counted
    environments: tuple[Environment, ...]  # that ran it, in the order in which they came


def read_facts(rows: Mapping[str, str]) -> Facts:
    """Facts from their JSON; a file from before a fact was kept is without it."""
    try:
        known = {name: json.loads(value) for name, value in rows.items()}
        depths, digest = known.get("depths"), known.get("data")
        if not isinstance(digest, str | None):
            raise DepthlrError(f"data is {digest!r}")
        return Facts(
            study_from_dict(known["study"]),
            data_digest=digest,
            depths=depths and {int(size): check.count("a depth", depth) for size, depth in depths.items()},
            environments=tuple(map(read_environment, known.get("environments", ()))),
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise DepthlrError(f"{type(error).__name__}: {error}") from error
