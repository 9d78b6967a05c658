"""A setting: one sweep or measurement of the paper, and what the paper prints of it. A protocol turns it into a study.

A recipe is the settings of one table or figure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from depthlr.models.spec import ModelSpec, parse_spec
from depthlr.models.zoo import ZOO
from depthlr.study.description import Data, Models, Search, Study
from depthlr.study.results import Over
from depthlr.training.training import LOSS, Training
from experiments.running import known_name

PROTOCOLS: dict[str, str] = {  # how much training a setting gets
    "paper": "three seeds, full epochs",
    "short": "100 steps an epoch",
    "smoke": "tiny models, a few steps",
}
BATCH = 128
SHORT_STEPS = 100  # the authors' public code stops an epoch after 100 batches
SMOKE_BATCH, SMOKE_EXAMPLES, SMOKE_POINTS = 8, 16, 5
SMOKE_SIZES = (2, 3)
SMOKE_ARGUMENTS = {"width": 8, "heads": 2}  # of whatever model takes them
ENERGY_SEEDS = {"paper": 8, "short": 3, "smoke": 2}  # of a measurement, by protocol
PLACES = (  # the paper's own labels
    "tab:main-results",
    "tab:ablation-all",
    "tab:vit_width_epoch",
    "tab:zero_shot_transfer",
    "tab:audio_sanity",
    "fig:c10-cnn-relu",
    "fig:c10-resnet-amup-vs-pathsum",
    "fig:plot_vit",
    "fig:vit-loss-landscape",
    "fig:ablation-all",
    "fig:cnn-padding",
    "fig:kernel_size_cifar10_relu",
    "prop:cnn-lr",
)


@dataclass(frozen=True)
class Printed:
    """A slope as printed, and its R^2 where the paper gives one. It gives no interval of a slope anywhere."""

    where: str  # a label of PLACES
    slope: float
    r2: float | None = None
    digits: int = 3
    about: bool = False  # printed as "close to"

    def __str__(self) -> str:
        """As printed, with a real minus sign."""
        text = f"{self.slope:.{self.digits}f}".replace("-", "\N{MINUS SIGN}")
        return f"≈ {text}" if self.about else text


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
        """What is run, but for the folder of the data.

        Args:
            protocol: a name of PROTOCOLS.
            precision: of the training.
        """
        smoke = known_name("protocol", protocol, PROTOCOLS) == "smoke"
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
        return Study(self.name, _models(self, smoke), training, Data(self.data, limit=limit), search)


@dataclass(frozen=True)
class EnergySetting:
    """A setting without training: models of several sizes, whose first step is measured under several seeds."""

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
        """What is measured: a study of a single step.

        Args:
            protocol: a name of PROTOCOLS.
            precision: Not used: energies are measured in fp32, whatever trains the cells.
        """
        smoke = known_name("protocol", protocol, PROTOCOLS) == "smoke"
        batch = SMOKE_BATCH if smoke else self.batch
        training = Training(steps=1, batch=batch, variance=self.variance, loss=self.loss)
        return Study(self.name, _models(self, smoke), training, Data(self.data))


AnySetting = Setting | EnergySetting


@dataclass(frozen=True)
class Recipe:
    """Settings, run in this order. One that an earlier recipe holds too is run, and kept, there.

    `places` are the paper's labels of what is reproduced: a setting may be printed in several.
    """

    name: str
    title: str
    places: tuple[str, ...]
    settings: tuple[AnySetting, ...]
    source: int | None = None  # the size whose tuned rate is carried to all the others

    @property
    def slopes(self) -> list[Setting]:
        """The sweeps from which a slope is read."""
        return [setting for setting in self.settings if isinstance(setting, Setting) and setting.scan is None]

    def printed(self, setting: Setting) -> Printed | None:
        """What the paper prints of a setting where this recipe looks, or anywhere.

        Args:
            setting: the setting.
        """
        here = [printed for printed in setting.printed if printed.where in self.places]
        return next(iter((*here, *setting.printed)), None)


def _models(setting: AnySetting, smoke: bool) -> Models:
    spec = parse_spec(setting.spec)
    return Models(str(tiny(spec) if smoke else spec), setting.vary, SMOKE_SIZES if smoke else setting.sizes)


def tiny(spec: ModelSpec) -> ModelSpec:
    """The model with the least width that still runs.

    Args:
        spec: the model.
    """
    return spec.with_arguments(**{key: n for key, n in SMOKE_ARGUMENTS.items() if key in ZOO[spec.name].defaults})
