"""The main job: tune a small model, carry its rate to a large one, and check the rate by training.

The recipe is a study with two sizes, source and target. The source is a sweep of its own, and so is the check. This
file says what these sweeps are; whoever calls it trains them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import nn

from depthlr.data.examples import Examples
from depthlr.energy.persistent import SEEDS
from depthlr.errors import DepthlrError
from depthlr.law.carried_rate import AS_INIT, CarriedRate
from depthlr.law.rules import RULES, recommended_rule
from depthlr.models.build import build
from depthlr.study.description import Search, Study
from depthlr.study.record import Record
from depthlr.study.results import Results
from depthlr.study.tasks import task_at, training_in_steps
from depthlr.trace.depth import effective_depth
from depthlr.transfer.rules import Recipe, transfer_rate

STEP_SHARE = 0.1  # of the steps, in which a check runs through the whole schedule
LEAST_STEPS = 20  # of a check: fewer show nothing
FACTOR = 2.0  # a check also trains at the carried rate divided and multiplied by this
RISE = 1.1  # times the loss of the first step: a higher one at the end means that a run has blown up
BATCHES = 17 * SEEDS  # what the rule `measured` takes
# On RealBench's design recipes: python -m experiments.realbench checks
CHECKS, CHECKS_RIGHT, CARRIED_BEST = 12, 4, 10
CHECK_RECORD = (
    f"In {CHECKS} checks of this kind on RealBench, a tenth of the schedule named the best of the three rates "
    f"{CHECKS_RIGHT} times, and the carried rate was the best of them {CARRIED_BEST} times. So a short check shows "
    "whether the target trains at the carried rate, and does not choose between the rates."
)


@dataclass(frozen=True)
class Tuning:
    """What `depthlr tune` found.

    Args:
        study: The recipe, with its two sizes.
        rate: The rate of the source: tuned, or given.
        source: The sweep that tuned it. None if the rate was given.
        carried: The rate of the target.
        checked: The target at the carried rate, at half and at twice of it. None without a check.
        share: Of the steps, that the check took.
    """

    study: Study
    rate: float
    source: Results | None
    carried: CarriedRate
    checked: Results | None = None
    share: float = STEP_SHARE

    @property
    def best_checked(self) -> float | None:
        """The rate with the lowest loss in the check, of those at which the target trained."""
        if self.checked is None:
            return None
        sound = [record for record in self.checked.records if did_train(record, self.checked)]
        return min(sound, key=self.checked.loss_of).cell.rate if sound else None


def did_train(record: Record, results: Results) -> bool:
    """Whether a run ended with a loss no higher than that of its first step. One that rose has blown up.

    Args:
        record: The run.
        results: The study that it belongs to.
    """
    if record.diverged or record.failure:
        return False
    first = np.frombuffer(record.losses, "<f4")[:1]
    return results.metric == "error" or not first.size or results.loss_of(record) <= RISE * float(first[0])


def check_recipe(study: Study) -> None:
    """Raise if a study cannot be tuned as a recipe: it needs a model, two sizes and a training of depthlr's own.

    Args:
        study: The recipe.
    """
    if study.training.command is not None:
        raise DepthlrError(
            "tune cannot see the steps and schedule of a command: tune the source with depthlr sweep, and carry its "
            "rate with depthlr transfer --rate RATE --from MODEL --to MODEL --steps STEPS."
        )
    if study.model.spec is None:
        raise DepthlrError("tune counts depths, so the recipe needs model.spec and model.vary: add them.")
    if len(study.model.sizes) != 2:
        sizes = list(study.model.sizes)
        raise DepthlrError(f"model.sizes is {sizes}: write two sizes, the source that is tuned and the target.")


def source_study(study: Study) -> Study:
    """The sweep that tunes the source.

    Args:
        study: The recipe.
    """
    return replace(study, model=replace(study.model, sizes=study.model.sizes[:1]))


def target_study(study: Study) -> Study:
    """The study of the target alone.

    Args:
        study: The recipe.
    """
    return replace(study, model=replace(study.model, sizes=study.model.sizes[1:]))


def tuned_rate(results: Results, mend: str = "") -> float:
    """The tuned rate of the source.

    Args:
        results: The sweep of the source.
        mend: What to do where it has none: the end of the error.

    Raises:
        DepthlrError: Every seed has its best rate at an edge of the grid, or nothing trained.
    """
    found = results.tuned_rates
    if not found:
        raise DepthlrError(f"the source has no tuned rate to carry: {'; '.join(results.notes)}{mend}.")
    (rate,) = found.values()
    return rate


def carry_to_target(study: Study, rate: float, examples: Examples, rule: str | None = None) -> CarriedRate:
    """Carry the source's rate to the target.

    Args:
        study: The recipe.
        rate: The rate of the source.
        examples: What is trained on, for rules that measure.
        rule: The name of a rule. None takes the one that the evidence recommends for this recipe.
    """
    training = training_in_steps(study, examples)
    name = rule or recommended_rule(schedule=training.schedule, steps=training.run_steps, measurable=True)
    make = _recipe_by_depth if name in RULES else _recipe_to_measure
    source, target = (make(study, size, examples) for size in study.model.sizes)
    carried = transfer_rate(rate, source, target, rule=name)
    drawn = training.variance != "own" and name in RULES and RULES[name].findings.get(AS_INIT)
    return carried.out_of_scope([drawn.sentence]) if drawn else carried


def check_steps(study: Study, examples: Examples, share: float = STEP_SHARE) -> int:
    """How many steps a check trains; raises if they are too few to show anything.

    Args:
        study: The recipe.
        examples: What is trained on.
        share: Of the steps; 1 trains the target in full.
    """
    whole = training_in_steps(study, examples).run_steps
    if not 0 < share <= 1:
        raise DepthlrError(f"--share is {share:g}: give a number above 0, and 1 for the whole schedule.")
    if share == 1:
        return whole
    steps = round(share * whole)
    if steps < LEAST_STEPS:
        least = min(1.0, math.ceil(100 * LEAST_STEPS / whole) / 100)
        raise DepthlrError(
            f"--verify would train {steps} of {whole} steps, which are too few to show anything: add --share {least:g}."
        )
    return steps


def verification_study(study: Study, rate: float, examples: Examples, share: float = STEP_SHARE) -> Study:
    """The check: the target at the carried rate, at half and at twice of it, through the whole schedule.

    Args:
        study: The recipe.
        rate: The carried rate.
        examples: What is trained on.
        share: Of the steps; 1 trains the target in full.
    """
    training, steps = training_in_steps(study, examples), check_steps(study, examples, share)
    warmup = training.warmup
    if warmup is not None and warmup >= 1:  # a number of steps, which shrinks with the schedule; a share does by itself
        warmup = max(1, round(share * warmup))
    metric = "budget" if training.metric == "last_epoch" else training.metric
    shorter = replace(training, steps=steps, epochs=None, warmup=warmup, metric=metric)
    search = Search("grid", rate / FACTOR, rate * FACTOR, 3, study.search.seeds[:1])
    return replace(target_study(study), training=shorter, search=search)


def _recipe_by_depth(study: Study, size: int, examples: Examples) -> Recipe:
    depth = effective_depth(*build(study.model.spec_at(size), input=examples.input, meta=True))
    training = training_in_steps(study, examples)
    return Recipe(depth, optimizer=training.optimizer, schedule=training.schedule, steps=training.run_steps)


def _recipe_to_measure(study: Study, size: int, examples: Examples) -> Recipe:
    task = task_at(study, size, examples)
    training = task.training
    order = task.order(0)[:BATCHES]

    def build_initialized() -> nn.Module:
        model = task.build()
        task.initialize(model, int(torch.randint(2**31, ())))  # under the seed that the rule sets
        return model

    batches = [examples.batch(indices) for indices in order]
    optimizer = partial(training.make_optimizers, rate=1.0)
    return Recipe(build_initialized, batches, task.loss_fn, optimizer, training.schedule, training.run_steps)
