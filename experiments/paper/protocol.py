"""How much training a setting gets: as the paper says, as the authors' public code ran it, or just enough to run."""

from __future__ import annotations

from depthlr.errors import DepthlrError, did_you_mean

PROTOCOLS: dict[str, str] = {
    "paper": "three seeds, full epochs",
    "short": "100 steps an epoch",
    "smoke": "tiny models, a few steps",
}
SHORT_STEPS = 100  # the authors' public code stops an epoch after 100 batches
SMOKE_BATCH, SMOKE_EXAMPLES, SMOKE_POINTS = 8, 16, 5
SMOKE_SIZES = (2, 3)
SMOKE_ARGUMENTS = {"width": 8, "heads": 2}  # of whatever model takes them


def protocol_named(name: str) -> str:
    """The name itself, if there is such a protocol."""
    if name not in PROTOCOLS:
        raise DepthlrError(
            f"There is no protocol {name!r}{did_you_mean(name, PROTOCOLS)}: choose from {', '.join(PROTOCOLS)}."
        )
    return name
