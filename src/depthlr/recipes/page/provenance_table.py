"""On what the results stand: data by digest, software by version."""

from __future__ import annotations

from depthlr.recipes.page.kept import Kept
from depthlr.recipes.page.words import table


def provenance_table(kept: Kept) -> str:
    """Each data set and each set of versions once."""
    facts = [sweep.facts for sweep in kept.sweeps.values()] + [found.facts for found in kept.energies.values()]
    data = dict.fromkeys((f["data"]["name"], f["data"]["examples"], f["data"]["digest"]) for f in facts)
    versions = dict.fromkeys(
        f"{f['device']}: " + ", ".join(f"{name} {number}" for name, number in f["versions"].items()) for f in facts
    )
    rows = [[name, f"{examples:,}", f"`{digest[:16]}…`"] for name, examples, digest in data]
    return table(("data", "examples", "sha256"), rows) + "\n\n" + "\n".join(f"- {line}" for line in versions)
