"""A setting: one sweep of the paper and what it printed, all stated once; a protocol turns it into a study."""

from __future__ import annotations

from dataclasses import dataclass, replace

from depthlr.models.spec import ModelSpec, parse_spec
from depthlr.models.zoo import ZOO
from depthlr.study.description import Data, Models, Search, Study
from depthlr.study.results import Over
from depthlr.training.training import Training
from experiments.paper.printed import Printed
from experiments.paper.protocol import (
    SHORT_STEPS,
    SMOKE_ARGUMENTS,
    SMOKE_BATCH,
    SMOKE_EXAMPLES,
    SMOKE_POINTS,
    SMOKE_SIZES,
    protocol_named,
)

CONVOLUTIONAL = (3, 4, 6, 8, 12, 16, 24, 30)  # layers of a CNN, blocks of a ResNet
BLOCKS = (2, 4, 6, 8, 12, 16, 20)  # of a transformer
BATCH = 128


@dataclass(frozen=True)
class Setting:
    """One sweep. `label` is the depth that the paper's slope is over: what is varied, or total effective depth.

    `longer` is a setting whose cells begin with this one's: it trains the same for more epochs, and what it ran is not
    run again. A `scan` looks at the whole range of rates instead of searching it, so that it can be drawn.
    """

    name: str
    title: str
    spec: str
    vary: str
    sizes: tuple[int, ...]
    data: str
    label: Over
    printed: tuple[Printed, ...] = ()
    low: float = 1e-4
    high: float = 10.0
    optimizer: str = "sgd"
    weight_decay: float = 0.0
    variance: str = "gating"
    epochs: int = 1
    steps: int | None = None  # instead of epochs
    sequences: bool = False  # spectrograms are read as sequences, one channel a mel band
    note: str = ""
    longer: Setting | None = None
    scan: int | None = None  # so many rates over the whole range, one seed; no slope is read from them

    def study(self, protocol: str, precision: str = "fp32") -> Study:
        """What is run, but for the folder of the data."""
        smoke = protocol_named(protocol) == "smoke"
        spec = parse_spec(self.spec)
        if smoke:
            spec = tiny(spec)
        steps, epochs, limit = self.steps, self.epochs, None
        if smoke:
            steps, limit = None, SMOKE_EXAMPLES
        elif protocol == "short" and epochs == 1 and self.longer is None:
            steps = SHORT_STEPS
        elif protocol == "short":
            limit = SHORT_STEPS * BATCH  # so that each of several epochs has 100 batches
        training = Training(
            optimizer=self.optimizer,
            weight_decay=self.weight_decay,
            batch=SMOKE_BATCH if smoke else BATCH,
            steps=steps,
            epochs=epochs if steps is None else None,
            precision=precision,
            metric="last_epoch" if epochs > 1 else "budget",
            variance=self.variance,
        )
        search = Search(low=self.low, high=self.high)  # adaptive, 80 points, three seeds
        if self.scan is not None:
            search = replace(search, kind="grid", points=self.scan, seeds=search.seeds[:1])
        if smoke:
            search = replace(search, points=SMOKE_POINTS, seeds=(0,))
        sizes = SMOKE_SIZES if smoke else self.sizes
        return Study(self.name, Models(str(spec), self.vary, sizes), training, Data(self.data, limit=limit), search)


def tiny(spec: ModelSpec) -> ModelSpec:
    """The model with the least width that still runs."""
    return spec.with_arguments(**{key: n for key, n in SMOKE_ARGUMENTS.items() if key in ZOO[spec.name].defaults})
