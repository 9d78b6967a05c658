"""The list of tasks is what was promised, and the committed oracles are of these very tasks."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from depthlr.data.sources import parse_name
from depthlr.errors import DepthlrError
from depthlr.models.build import build
from depthlr.trace.depth import effective_depth
from experiments.transferbench.known import read_oracle
from experiments.transferbench.rules import CHOSEN, RULES
from experiments.transferbench.tasks import DEV, FIRST_JUDGED, PEERS, TASKS, TEST

RESULTS = Path(__file__).parents[3] / "results" / "transferbench"
INPUTS = {"cifar10": "3x32x32", "cifar100": "3x32x32", "images": "3x64x64", "text": "ids:128:65", "wav": "48x48"}


def test_names_are_unique():
    assert len({task.name for task in TASKS}) == len(TASKS)


def test_no_task_is_one_of_another_split_again():
    splits = [{task.identity for task in split} for split in (DEV, FIRST_JUDGED, TEST)]
    assert not any(one & other for one, other in combinations(splits, 2))


def test_the_list_covers_what_it_should():
    every = (*DEV, *FIRST_JUDGED, *TEST)
    assert (len(DEV), len(FIRST_JUDGED), len(TEST)) == (10, 14, 9)
    assert {task.family for task in every} == {
        *("cnn", "resnet", "resnet-bn", "mlp", "vit-post", "vit-pre", "beit", "cct", "cnn1d", "gpt")
    }
    assert {task.study.training.optimizer for task in every} == {"sgd", "momentum", "adam", "adamw", "muon"}
    for judging in (FIRST_JUDGED, TEST):
        assert {task.study.training.schedule for task in judging} == {"constant", "warmup-cosine"}
    assert sum(task.paper_width for task in every) >= 8
    assert sum(task.study.model.vary == "scale" for task in every) == 2
    assert any(task.study.training.epochs == 3 for task in every)
    assert all(parse_name(task.study.data.name)[0] != "digits" for task in TASKS)
    # A limit would keep half of the classes of a folder of images.
    assert all(task.study.data.limit is None for task in TASKS if parse_name(task.study.data.name)[0] == "images")
    assert all(len(task.study.search.seeds) == 3 and task.study.search.points == 80 for task in TASKS)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_depths_span_four_times(task):
    sizes = task.study.model.sizes
    assert len(sizes) >= 4
    ends = [
        build(task.study.model.spec_at(n), input=INPUTS[task.identity[2]], meta=True) for n in (sizes[0], sizes[-1])
    ]
    shallow, deep = (effective_depth(*end) for end in ends)
    assert deep.total >= 4 * shallow.total
    # The tables keep the typical width alone: comparing it is comparing the sets of widths.
    differ = bool(shallow.other_widths(deep))
    assert differ == (shallow.width != deep.width) == (task.study.model.vary == "scale")


def test_twins_differ_from_their_tasks_in_the_model_alone():
    named = {task.name: task for task in (*DEV, *FIRST_JUDGED, *TEST)}
    for twin in PEERS:
        task = named[twin.twin]
        assert RULES[twin.rule].own_models
        assert (twin.study.data, twin.study.search) == (task.study.data, task.study.search)
        assert twin.study.training.branch_scale == "none"


def test_committed_oracles_are_of_the_tasks_as_they_stand():
    kept = [task for task in TASKS if (RESULTS / f"{task.name}.csv").exists()]
    assert {*DEV, *FIRST_JUDGED} <= {*kept}
    for task in kept:
        assert read_oracle(task, RESULTS) is not None
    other = replace(kept[0], study=replace(kept[0].study, training=replace(kept[0].study.training, steps=9)))
    with pytest.raises(DepthlrError, match=r"another task .*steps: 100 -> 9"):
        read_oracle(other, RESULTS)


def test_the_chosen_rule_is_compared():
    assert CHOSEN in RULES
