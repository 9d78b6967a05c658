"""A setting without training: update energies at initialization, against depth."""

from __future__ import annotations

from dataclasses import dataclass

from depthlr.models.spec import parse_spec
from depthlr.study.description import Data, Models, Study
from depthlr.training.training import LOSS, Training
from experiments.paper.printed import Printed
from experiments.paper.protocol import SMOKE_BATCH, SMOKE_SIZES, protocol_named
from experiments.paper.setting import tiny

SEEDS = {"paper": 8, "short": 3, "smoke": 2}


@dataclass(frozen=True)
class EnergySetting:
    """Models of several sizes, whose first step is measured under several seeds."""

    name: str
    title: str
    spec: str
    vary: str
    sizes: tuple[int, ...]
    data: str = "digits"
    printed: tuple[Printed, ...] = (Printed("prop:cnn-lr", -1.5, digits=1),)
    batch: int = 64
    variance: str = "gating"
    loss: str = LOSS

    def study(self, protocol: str, precision: str = "fp32") -> Study:
        """What is measured: a study of a single step. Energies are measured in fp32, whatever trains the cells."""
        smoke = protocol_named(protocol) == "smoke"
        spec = parse_spec(self.spec)
        models = Models(str(tiny(spec) if smoke else spec), self.vary, SMOKE_SIZES if smoke else self.sizes)
        batch = SMOKE_BATCH if smoke else self.batch
        training = Training(steps=1, batch=batch, variance=self.variance, loss=self.loss)
        return Study(self.name, models, training, Data(self.data))
