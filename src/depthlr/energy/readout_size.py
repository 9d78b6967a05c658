"""Does a readout start at a size at which measured rates were compared with tuned ones?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from depthlr.energy.persistent import PersistentEnergy

SEEN = (0.022, 6.4)  # mean squares of the readouts of TransferBench's models, all initialised by init_


def strange_size(found: Sequence[PersistentEnergy]) -> str | None:
    """A sentence where it does not: rates relative to a readout of next to nothing say next to nothing."""
    size = math.exp(fmean(math.log(one.mean_square) for one in found))
    least, most = SEEN
    if least <= size <= most:
        return None
    cause = "signals vanish, or the head starts near zero" if size < least else "signals grow"
    return (
        f"the readout starts with a mean square of {size:.2g} ({cause}), and measured rates were compared with tuned "
        f"ones at {least:g} to {most:g} alone: initialise by init_, or do not trust this one."
    )
