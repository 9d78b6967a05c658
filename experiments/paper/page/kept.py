"""What the committed tables hold: every setting that was measured, under the fullest protocol there is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import median_low as median
from typing import Any, TypeVar

from depthlr.errors import DepthlrError
from depthlr.law.fit import POOLING, Fit, fit_power_law
from depthlr.study.curves import by_size, chance_loss, least_loss
from depthlr.study.description import Study
from depthlr.study.results import Over, Results
from experiments.paper.running.carried import RULES
from experiments.paper.running.jobs import Place, chosen, home
from experiments.paper.running.tables import CARRIED, CELLS, ENERGIES, read_rows, read_setting, record_of
from experiments.paper.settings import PROTOCOLS, EnergySetting, Setting
from experiments.tables import damaged, read_text

FINDINGS = ("first", "findings", "grids", "cost")  # the parts of the page that hold findings in words

LEARNT = 0.005  # the smallest relative improvement over guessing that counts as learning


@dataclass(frozen=True)
class Carried:
    """A rule's rate at a target, trained there with every seed."""

    rule: str
    size: int
    rate: float
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Sweep:
    """A setting's sweep, read back."""

    setting: Setting
    protocol: str
    facts: Mapping[str, Any]
    results: Results
    carried: tuple[Carried, ...] = ()
    unlearnt: tuple[int, ...] = ()  # sizes that hardly do better than guessing, so that a best rate of theirs is noise

    @property
    def counts(self) -> bool:
        """Is it evidence? What is unfinished, a mere smoke, or a scan to look at is not."""
        return bool(self.facts["complete"]) and self.protocol != "smoke" and self.setting.scan is None

    @property
    def learnt(self) -> Results:
        """Without the sizes that learn nothing."""
        records = tuple(record for record in self.results.records if record.cell.size not in self.unlearnt)
        return replace(self.results, records=records)

    def fit(self, over: Over) -> Fit | None:
        """Through the sizes that learn; None where too few optima lie inside the range."""
        return fit_of(self.learnt, over)


def fit_of(results: Results, over: Over, pooling: float = POOLING) -> Fit | None:
    """The fit of results, or None where too few optima lie inside the range.

    Args:
        results: of a sweep.
        over: the depth that the slope is over.
        pooling: as `Results.fit` takes it.
    """
    try:
        return results.fit(over, pooling=pooling)
    except DepthlrError:
        return None


@dataclass(frozen=True)
class Energies:
    """A setting's energies at initialization, read back: mean and readout energies by depth."""

    setting: EnergySetting
    protocol: str
    facts: Mapping[str, Any]
    depths: tuple[int, ...]
    sizes: tuple[int, ...]
    means: tuple[float, ...]
    readouts: tuple[float, ...]

    @property
    def counts(self) -> bool:
        """Is it evidence? What is unfinished, or a mere smoke, is not."""
        return bool(self.facts["complete"]) and self.protocol != "smoke"

    def fit(self, readout: bool = False) -> Fit | None:
        """The line through the rates at which an energy is 1: energy is quadratic in the rate."""
        values = self.readouts if readout else self.means
        try:
            return fit_power_law([self.depths[i] for i in self.moving], [values[i] ** -0.5 for i in self.moving])
        except DepthlrError:
            return None

    @property
    def moving(self) -> tuple[int, ...]:
        """The rows whose energy is not 0, at depths where it is not in most: a vanished signal leaves no rate."""
        alive = [min(pair) > 0 for pair in zip(self.means, self.readouts, strict=True)]
        most = {d for d in set(self.depths) if median(a for a, at in zip(alive, self.depths, strict=True) if at == d)}
        return tuple(row for row, depth in enumerate(self.depths) if alive[row] and depth in most)


@dataclass(frozen=True)
class Kept:
    """All that a folder holds, by setting's name, each under the fullest protocol there is."""

    sweeps: Mapping[str, Sweep]
    energies: Mapping[str, Energies]
    lesser: tuple[Sweep, ...] = ()  # the same settings under less full protocols, for comparisons among equals
    findings: Mapping[str, str] = field(default_factory=dict)  # in words, by part of the page

    def protocols(self, setting: Setting) -> list[Sweep]:
        """A setting's sweeps, the fullest first."""
        first = self.sweeps.get(setting.name)
        return [] if first is None else [first, *(sweep for sweep in self.lesser if sweep.setting is setting)]

    def complete(self, setting: Setting) -> list[Sweep]:
        """Those of a setting that are finished."""
        return [sweep for sweep in self.protocols(setting) if sweep.facts["complete"]]


Read = TypeVar("Read", Sweep, Energies)


def read_kept(folder: Path) -> Kept:
    """Read a folder's tables; a folder without any is refused."""
    sweeps: dict[str, Sweep] = {}
    energies: dict[str, Energies] = {}
    lesser = []
    for setting in chosen():
        places = [Place(folder, home(setting).name, setting.name, protocol) for protocol in PROTOCOLS]
        found = [place for place in places if place.file("json").is_file()]
        if found and isinstance(setting, EnergySetting):
            energies[setting.name] = _evidence_first([read_energies(setting, place) for place in found])[0]
        elif found and isinstance(setting, Setting):
            sweeps[setting.name], *others = _evidence_first([read_sweep(setting, place) for place in found])
            lesser += others
    if not sweeps and not energies:
        raise DepthlrError(f"{folder} holds no results of a recipe: run depthlr reproduce --out {folder} first.")
    return Kept(sweeps, energies, tuple(lesser), _findings(folder))


def _evidence_first(read: list[Read]) -> list[Read]:
    """The fullest protocol first, but an unfinished one behind any that is finished."""
    return sorted(read, key=lambda one: not one.counts)


def read_sweep(setting: Setting, place: Place) -> Sweep:
    """A setting's sweep from its tables."""
    facts, rows = read_setting(place, CELLS)
    study = facts["study"]
    depths = {row["size"]: row["depth"] for row in rows}
    if not set(depths) <= set(study.model.sizes):
        raise damaged(place.file("csv"), f"has a size that the study in {place.file('json')} has not")
    results = Results(study, tuple(map(record_of, rows)), depths, facts["environments"])
    if not facts["complete"]:
        results = _decided(results)
    nothing: tuple[int, ...] = ()
    if place.protocol != "smoke":  # which trains a few steps
        chance = chance_loss(study) or math.inf
        found = by_size(results.curves).items()
        nothing = tuple(size for size, known in found if least_loss(known) > (1 - LEARNT) * chance)
    return Sweep(setting, place.protocol, facts, results, _carried(place, study), nothing)


def read_energies(setting: EnergySetting, place: Place) -> Energies:
    """A setting's energies from their table."""
    facts, rows = read_setting(place, ENERGIES)
    columns = {column: tuple(row[column] for row in rows) for column in ENERGIES}
    return Energies(
        setting,
        place.protocol,
        facts,
        depths=columns["depth"],
        sizes=columns["size"],
        means=columns["mean"],
        readouts=columns["readout"],
    )


def _decided(results: Results) -> Results:
    """An unfinished sweep without the size it was at: what is best there so far is no optimum yet."""
    undecided = min((cell.size for cell in results.search_state.missing), default=math.inf)
    return replace(results, records=tuple(record for record in results.records if record.cell.size < undecided))


def _carried(place: Place, study: Study) -> tuple[Carried, ...]:
    """A rule's rates are at every target, each with every seed; rules that came later may be missing."""
    file = place.file("carried.csv")
    if not file.is_file():
        return ()
    found: dict[tuple[str, int, float], list[tuple[int, float]]] = {}
    for row in read_rows(file, CARRIED):
        found.setdefault((row["rule"], row["size"], row["rate"]), []).append((row["seed"], row["loss"]))
    targets = sorted({size for _, size, _ in found})
    rules = RULES[: len({rule for rule, _, _ in found})]
    if (
        len(rules) < 2  # the copied rate, and the law's
        or [(rule, size) for rule, size, _ in found] != list(product(rules, targets))
        or len(targets) != len(study.model.sizes) - 1
        or any([seed for seed, _ in cells] != [*study.search.seeds] for cells in found.values())
    ):
        raise damaged(
            file, f"does not hold, of one rate for every rule and target, the seeds that {place.file('json')} says"
        )
    return tuple(Carried(*key, tuple(loss for _, loss in cells)) for key, cells in found.items())


def _findings(folder: Path) -> dict[str, str]:
    """The parts of `findings.md`, each under a comment with its name; none where there is no such file.

    They lie beside the tables that they are true of, since other tables say other things.
    """
    file = folder / "findings.md"
    if not file.is_file():
        return {}
    _, *parts = re.split(rf"^<!-- ({'|'.join(FINDINGS)}) -->$", read_text(file), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
