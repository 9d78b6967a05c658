"""All work that needs a GPU, as data: parts in the order in which they are run, each with its jobs.

A job writes one table below the folder of tables, and is finished when the facts beside the table say so. Its expected
seconds are those of the whole device: runs of the committed tables took so long, about `GAIN` of them at once.

On a machine without network the data come along as files, at most 64 MiB a transfer with the checkout, so in three:

| transfer | files of realbench-data | MB |
|---|---|---|
| 1 | cifar100.npz | 52.5 |
| 2 | cifar10.npz | 51.8 |
| 3 | text.xz, spoken.npz | 7.0 |

Then one command, repeated until `plan` says that all is finished; each call packs what it found into one file:

    python -m experiments.realbench next --data realbench-data --seconds 560 --at-once 5 --archive realbench.tar.gz
    python -m experiments.realbench unpack realbench.tar.gz     # where the repository is; then commit results/
    python -m experiments.realbench plan

Under CUDA MPS (`nvidia-cuda-mps-control -d`) the processes' kernels run side by side: 258 runs in 543 s, where the
design half took 150 in that time. Six processes fill an H200 (590 W of 700 W); ten were no faster.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Literal

from depthlr.models.spec import parse_spec
from experiments.realbench.kept import is_finished, read_facts, read_rows
from experiments.realbench.recipes import RECIPES, SEEDS, STEPS, RealRecipe, recipe_named
from experiments.realbench.scores import read_tuned

Kind = Literal["sweep", "long", "regret", "suggested", "measured", "suggestions", "tuning-free", "dynamics", "readings"]
TRAIN_CELLS = frozenset({"sweep", "long", "regret", "suggested"})  # kinds whose tables have a row for each run
GAIN = 6.0  # runs that an H200 trains in the time that a table gives for one
FIRST_CELLS, CELLS = 22, 16  # that a search asks for at its smallest size and at each other, of two seeds
OPEN_SECONDS = 15.0  # to build, compile and capture one size
NOISY = 0.05  # decades: a noise floor above it asks for a third seed
THIRD_SEED = 2
LONGEST = 8_000  # steps
EAGER = 3.0  # an optimizer of our own, not captured, takes so many times as long
NO_RUNS: Mapping[int, int] = MappingProxyType({})
MINUTES = "minutes.csv"  # what each call took

# A judged recipe costs about as much as this one, whose runs are timed in the tables.
LIKE = {
    "gpt2-muon-cosine": "llama-muon-cosine",
    "gpt2-adamw-wsd": "gpt2-adamw-cosine",
    "llama-adamw-linear": "llama-adamw-wsd",
    "vit-adamw-mixup": "vit-adamw-cosine",
    "resnet-momentum-plain": "resnet-momentum-cosine",
    "resnet-momentum-wsd": "resnet-momentum-cosine",
    "mixer-adamw-cosine": "vit-adamw-cosine",
    "bert-adamw-linear": "gpt2-adamw-cosine",
    "cct-adamw-cosine": "vit-adamw-cosine",
    "spoken-adamw-mixup": "vit-adamw-cosine",
}
MEASURED_SECONDS = 4.0  # of one recipe, beside others
SUGGESTIONS_SECONDS, DYNAMICS_SECONDS = 25.0, 60.0  # guesses, of one recipe


@dataclass(frozen=True)
class Job:
    """One table.

    Args:
        kind: how it is made.
        variant: a recipe or a variant of one.
        needs: tables that must be finished before it can begin.
    """

    kind: Kind
    variant: str
    needs: tuple[str, ...] = ()

    @cached_property
    def recipe(self) -> RealRecipe:
        return recipe_named(self.variant)

    @property
    def name(self) -> str:
        """As commands and logs name it."""
        return self.recipe.name if self.kind in {"sweep", "long"} else f"{self.kind}/{self.recipe.name}"

    @property
    def table(self) -> str:
        """Its file below the folder of tables."""
        return f"{self.name}.csv"

    def is_finished(self, tables: Path) -> bool:
        table = tables / self.table
        if self.kind == "readings":  # from before facts lay beside them
            return table.is_file()
        return is_finished(table)

    def state(self, tables: Path) -> str:
        """In words."""
        if self.is_finished(tables):
            return "finished"
        return "ready" if self.is_ready(tables) else "waits for others"

    def is_ready(self, tables: Path) -> bool:
        """Is there something to do, and all that it takes?"""
        return not self.is_finished(tables) and all(is_finished(tables / need) for need in self.needs)

    def runs(self, tables: Path) -> int:
        """Rows of its table, finished or not."""
        return int(read_facts(tables / self.table).get("runs", 0))

    def longest(self, tables: Path) -> float:
        """Expected seconds of the longest run, beside others."""
        if self.kind in TRAIN_CELLS:
            return max(run_seconds(self.recipe, size, tables) for size in self.recipe.study.model.sizes)
        return 30.0

    def expected(self, tables: Path, known: Mapping[int, int] = NO_RUNS) -> float:
        """Seconds of the whole device, from the beginning to the end.

        Args:
            tables: where tables lie.
            known: by size, the runs that need not be trained.
        """
        seconds = sum(
            max(0.0, self._cells(place, size) - known.get(size, 0)) * run_seconds(self.recipe, size, tables)
            for place, size in enumerate(self.recipe.study.model.sizes)
        )
        if self.kind == "measured":
            return MEASURED_SECONDS
        if self.kind == "suggestions":
            return SUGGESTIONS_SECONDS
        if self.kind in {"dynamics", "readings"}:
            return DYNAMICS_SECONDS
        return (seconds + OPEN_SECONDS * len(self.recipe.study.model.sizes)) / GAIN

    def left(self, tables: Path) -> float:
        """Seconds of the whole device that are still to come."""
        if self.is_finished(tables):
            return 0.0
        if self.kind not in TRAIN_CELLS:
            return self.expected(tables)
        return self.expected(tables, Counter(cell.size for cell in read_rows(tables / self.table)))

    def _cells(self, place: int, size: int) -> float:
        """Runs at one size, in units of a captured run."""
        seeds = len(self.recipe.study.search.seeds)
        if self.kind == "sweep":
            if "metric" in self.variant:  # beside those of the same sweep judged by validation loss
                return 6
            if "power" in self.variant and place == 0:  # the model itself
                return 0
            return (FIRST_CELLS if place == 0 else CELLS) * seeds / 2
        if self.kind == "long":
            return 6 * seeds
        if self.kind == "regret":
            return 3 * seeds if place else 0
        if self.kind == "suggested":
            return 0 if place % 2 else 5
        return 0 if place % 2 else 2 * EAGER  # of tuning-free; the others are guesses


@dataclass(frozen=True)
class Part:
    """Jobs that answer one question. Those of some parts are known only when others are finished."""

    name: str
    title: str
    jobs: Callable[[Path], Sequence[Job]]
    waits: str = ""  # what is said while the jobs are not known


def run_seconds(recipe: RealRecipe, size: int, tables: Path) -> float:
    """What one run takes beside others: as in the table of its like, scaled by steps, batch and width squared."""
    base = recipe.name.partition("+")[0]
    like = LIKE.get(base, base)
    seconds = _mean_seconds(tables / f"{like}.csv")
    if size not in seconds:  # without a table, as in a rehearsal
        return 1.0
    own, other = recipe.study, recipe_named(base).study
    ratio = own.training.run_steps / STEPS * own.training.batch / other.training.batch
    return seconds[size] * ratio * max(0.25, (_width(recipe) / _width(recipe_named(base))) ** 2)


def _mean_seconds(table: Path) -> Mapping[int, float]:
    by_size: dict[int, list[float]] = {}
    for cell, row in read_rows(table).items():
        by_size.setdefault(cell.size, []).append(float(row["seconds"]))
    return {size: fmean(found) for size, found in by_size.items()}


def _width(recipe: RealRecipe) -> int:
    usual = WIDTHS.get(recipe.name.partition("-")[0], 1)
    found = parse_spec(str(recipe.study.model.spec)).arguments.get("width", usual)
    assert isinstance(found, int)
    return found


WIDTHS = {"gpt2": 256, "llama": 256, "resnet": 32}  # of the models' own defaults, where a variant changes the width


# -- the parts ---------------------------------------------------------------------------------------------------------
def names(split: str) -> tuple[str, ...]:
    """The recipes of one half."""
    return tuple(recipe.name for recipe in RECIPES if recipe.split == split)


def is_judged_half_swept(tables: Path) -> bool:
    """Are all ten recipes tuned with two seeds, and none of them to be replaced? Until then nothing of them is read."""
    judged = names("judged")
    return all(is_finished(tables / f"{name}.csv") and not rising_sizes(name, tables) for name in judged)


def rising_sizes(name: str, tables: Path) -> tuple[int, ...]:
    """Sizes at which the validation loss at the best rate so far rises over the last quarter of training.

    A judged recipe with such a size is replaced. This is all that is read of an unfinished half.
    """
    table = tables / f"{name}.csv"
    return read_tuned(table, further=False).rising if table.is_file() else ()


def third_seeds(tables: Path) -> list[Job]:
    """Judged recipes whose noise floor asks for a third seed; known when all of them are tuned with two."""
    if not is_judged_half_swept(tables):
        return []
    return [
        Job("sweep", f"{name}?seeds={THIRD_SEED}")
        for name in names("judged")
        if read_tuned(tables / f"{name}.csv", further=False).floor > NOISY
    ]


def is_judged_half_finished(tables: Path) -> bool:
    """Is nothing left that the judged tables' analysis needs?"""
    return is_judged_half_swept(tables) and all(job.is_finished(tables) for job in third_seeds(tables))


def regrets(tables: Path) -> list[Job]:
    """Trained once the judged half is finished, third seeds included, for the rates come from it."""
    if any(rising_sizes(name, tables) for name in names("judged")):
        return []
    needs = (*(f"{name}.csv" for name in names("judged")), *(job.table for job in third_seeds(tables)))
    return [Job("regret", name, needs) for name in names("judged")]


def one_seed(name: str, *changes: str) -> str:
    """A variant of a recipe, trained with the first of its seeds.

    A second seed would double the cost. A seed's tuned rate scatters by 0.01 to 0.02 decades (one standard deviation)
    on the recipes that have such variants, and a change that matters is larger.
    """
    return f"{name}?{'&'.join([*changes, f'seeds={SEEDS[0]}'])}"


def horizon(tables: Path) -> list[Job]:
    jobs = [sweep(of_length(name, steps)) for steps in (300, 1_500) for name in HORIZON]
    for name, sizes in HORIZON.items():
        shorter = recipe_named(of_length(name, 1_500)).name
        jobs += [Job("long", long_variant(name, size), (f"{shorter}.csv",)) for size in sizes]
    return jobs


def of_length(name: str, steps: int) -> str:
    """A recipe whose runs take so many steps."""
    return one_seed(name, f"steps={steps}")


def long_variant(name: str, size: int) -> str:
    """A recipe's longest runs at one size."""
    return one_seed(name, f"steps={LONGEST}", f"sizes={size}")


def factors(tables: Path) -> list[Job]:
    """Initialization and steps; the judge by sweeps that begin with the same runs."""
    variants = [
        of_length(name, steps) + init for name in HORIZON for steps in (150, 1_500) for init in ("", "&variance=gating")
    ]
    jobs = [sweep(variant) for variant in variants if variant not in {of_length(name, 1_500) for name in HORIZON}]
    return jobs + [
        Job("sweep", f"{variant}&metric=budget", (f"{recipe_named(variant).name}.csv",)) for variant in variants
    ]


def axes(tables: Path) -> list[Job]:
    return [sweep(on_axis(name, change)) for name, (_, changes) in AXES.items() for change in changes]


def on_axis(name: str, change: str) -> str:
    """A recipe with another width or batch, at the two sizes that the axes compare."""
    return one_seed(name, change, f"sizes={AXES[name][0]}")


def peers(tables: Path) -> list[Job]:
    return [Job("sweep", twin(name, power), (f"{name}.csv",)) for name in TWINS for power in POWERS.values()]


def twin(name: str, power: float) -> str:
    """A recipe in a peer's parametrization."""
    return one_seed(name, f"power={power}")


def why(tables: Path) -> list[Job]:
    return [sweep(variant) for variant in WHY] + [Job("dynamics", name) for name in DYNAMICS_OF]


def sweep(variant: str) -> Job:
    return Job("sweep", variant)


def of_each(kind: Kind, *halves: str) -> Callable[[Path], list[Job]]:
    return lambda tables: [Job(kind, name) for half in halves for name in names(half)]


HORIZON: Mapping[str, tuple[int, int]] = {"gpt2-adamw-cosine": (2, 16), "resnet-momentum-cosine": (1, 8)}
AXES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "gpt2-adamw-cosine": ("2,8", ("width=128", "width=512", "batch=128")),
    "resnet-momentum-cosine": ("1,4", ("width=16", "width=64", "batch=512")),
}
TWINS = ("gpt2-adamw-cosine", "llama-adamw-wsd", "vit-adamw-cosine")
POWERS = {"Depth-muP": 0.5, "CompleteP": 1.0}
WHY = tuple(
    one_seed(name, f"sizes={sizes}", *changes)
    for name, sizes, changes in (
        ("resnet-momentum-cosine", "1,8", ("weight_decay=0.0",)),
        ("resnet-momentum-cosine", "1,8", ("zero_init=false",)),
        ("resnet-momentum-cosine", "1,8", ("weight_decay=0.0", "zero_init=false")),
        ("resnet-momentum-cosine", "1,8", ("momentum=0.0",)),
        ("resnet-momentum-cosine", "1,8", ("norm=group",)),
        ("llama-muon-cosine", "2,8", ("weight_decay=0.0",)),
        ("llama-muon-cosine", "2,8", ("muon=all",)),
    )
)
DYNAMICS_OF = (
    "resnet-momentum-cosine",
    "resnet-momentum-cosine?weight_decay=0.0",
    "llama-muon-cosine",
    "llama-adamw-wsd",
)

PARTS: tuple[Part, ...] = (
    Part("design", "design recipes, tuned", of_each("sweep", "design")),
    Part("readings", "readings of the design recipes", of_each("readings", "design")),
    Part("judged", "judged recipes, tuned", of_each("sweep", "judged")),
    Part("third-seeds", f"a third seed where the noise floor exceeds {NOISY}", third_seeds, "the judged recipes"),
    Part("measured", "the rule measured, at initialization", of_each("measured", "judged", "design")),
    Part("regret", "runs at the rates of copy, constant exponent and the tuned one", regrets),
    Part("suggestions", "rates with no source", of_each("suggestions", "judged", "design")),
    Part(
        "suggested",
        "runs at these rates",
        lambda tables: [
            Job("suggested", name, (f"suggestions/{name}.csv",))
            for half in ("judged", "design")
            for name in names(half)
        ],
    ),
    Part("tuning-free", "Prodigy and schedule-free AdamW", of_each("tuning-free", "judged", "design")),
    Part("horizon", "300, 1,500 and 8,000 steps", horizon),
    Part("factors", "initialization x steps x judge", factors),
    Part("axes", "width and batch (depth with width and steps use the same tables)", axes),
    Part("peers", "twins in Depth-muP and CompleteP", peers),
    Part("why", "what lowers the ResNet's rate with depth, and Muon's not", why),
)


def part_named(name: str) -> Part:
    """The part of that name."""
    return next(part for part in PARTS if part.name == name)


def pending(tables: Path, parts: Iterable[str] = ()) -> list[tuple[Part, Job]]:
    """Jobs that can begin, in the plan's order."""
    wanted = set(parts) or {part.name for part in PARTS}
    found, seen = [], set()
    for part in PARTS:
        for job in part.jobs(tables) if part.name in wanted else ():
            if job.table not in seen and job.is_ready(tables):
                found.append((part, job))
            seen.add(job.table)
    return found


def spent(tables: Path) -> dict[str, float]:
    """Seconds of the device by part, from the tables of calls."""
    path = tables / MINUTES
    found: dict[str, float] = {}
    if path.is_file():
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                found[row["part"]] = found.get(row["part"], 0.0) + float(row["seconds"])
    return found


def plan_table(tables: Path) -> str:
    """Every part with its state. Of unfinished judged tables it says how many runs they hold, and nothing else."""
    used = spent(tables)
    lines = [
        "| part | what | tables finished | runs | expected, s | left, s | spent, s |",
        "|---|---|---|---|---|---|---|",
    ]
    totals = [0.0, 0.0]
    for part in PARTS:
        jobs = part.jobs(tables)
        expected = sum(job.expected(tables) for job in jobs)
        left = sum(job.left(tables) for job in jobs)
        done = f"{sum(job.is_finished(tables) for job in jobs)} of {len(jobs)}"
        if part.waits and not is_judged_half_swept(tables):
            done = f"known after {part.waits}"
        runs = sum(job.runs(tables) for job in jobs)
        seconds = f"{used[part.name]:.0f}" if part.name in used else "-"
        lines.append(f"| {part.name} | {part.title} | {done} | {runs} | {expected:.0f} | {left:.0f} | {seconds} |")
        totals = [totals[0] + expected, totals[1] + left]
    lines.append(f"| all | | | | {totals[0]:.0f} | {totals[1]:.0f} | {sum(used.values()):.0f} |")
    return "\n".join(lines) + "\n"
