"""What the results were made with: data by digest, software by version, and which sweeps moved between machines."""

from __future__ import annotations

from experiments.pages import markdown_table
from experiments.paper.page.kept import Kept


def provenance_table(kept: Kept) -> str:
    """Each data set and each set of versions once, then the sweeps that more than one machine trained."""
    facts = [sweep.facts for sweep in kept.sweeps.values()] + [found.facts for found in kept.energies.values()]
    data = dict.fromkeys((f["data"]["name"], f["data"]["examples"], f["data"]["digest"]) for f in facts)
    versions = dict.fromkeys(
        f"{f['device']}: " + ", ".join(f"{name} {number}" for name, number in f["versions"].items()) for f in facts
    )
    moved = [
        f"{sweep.setting.title}, {sweep.protocol}: trained on {', then '.join(map(str, sweep.results.environments))}"
        for sweep in (*kept.sweeps.values(), *kept.lesser)
        if len(sweep.results.environments) > 1
    ]
    rows = [[name, f"{examples:,}", f"`{digest[:16]}…`"] for name, examples, digest in data]
    return (
        markdown_table(("data", "examples", "sha256"), rows)
        + "\n\n"
        + "\n".join(f"- {line}" for line in (*versions, *moved))
    )
