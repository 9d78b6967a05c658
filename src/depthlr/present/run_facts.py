"""What was run, and how to run it again."""

from __future__ import annotations

import re
from typing import Any

from depthlr.present.findings import Findings
from depthlr.study.description import to_toml


def run_facts(found: Findings) -> list[tuple[str, str]]:
    """Names and values, in the order in which one asks."""
    results, study = found.results, found.results.study
    diverged = sum(record.diverged for record in results.records)
    facts = [
        ("Model", f"{study.model.spec}, {study.model.vary} {_list(study.model.sizes)}"),
        ("Seeds", _list(study.search.seeds)),
        ("Cells", f"{len(results.records)} trained, {diverged} of them diverged"),
    ]
    if results.records:
        first, last = (pick(record.finished for record in results.records) for pick in (min, max))
        facts += [
            ("First and last cell", f"{_moment(first)} and {_moment(last)} UTC"),
            ("Training time", duration(sum(record.seconds for record in results.records))),
        ]
    places = ", then ".join(map(str, results.environments)) or "not recorded"
    if not results.described:
        facts.append(("Trained by", "another program, whose data, optimizer, batch and loss are not recorded"))
    return [
        *facts,
        ("Trained on" if results.described else "Sweep ran on", places),
        ("Data digest", found.snapshot.data_digest or "not recorded"),
        ("Study digest", study.digest),
    ]


def study_facts(found: Findings) -> dict[str, Any]:
    """The study as tables; without data and training where another program trained the cells."""
    tables = found.results.study.to_dict()
    return tables if found.results.described else {key: tables[key] for key in ("name", "model", "search")}


def commands(found: Findings) -> str:
    """Shell lines that make the study's file and this report; of cells that another program trained, the report."""
    study = found.results.study
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", study.name).strip("-.") or "study"
    page = f"depthlr report {name}.sqlite --out {name}.html\n"
    if not found.results.described:
        return page
    # The quoted end mark keeps the shell from reading the text; a line of TOML never equals it.
    return f"cat > {name}.toml <<'END'\n{to_toml(study)}END\ndepthlr sweep {name}.toml\n{page}"


def duration(seconds: float) -> str:
    """`43 s`, `12 min`, `3.4 h`."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _moment(finished: str) -> str:
    """The date and time of a record without its offset, which is always UTC."""
    return finished.replace("T", " ").removesuffix("+00:00")
