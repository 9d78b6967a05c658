"""Tasks so small that a sweep takes seconds: the same machinery on the digits."""

from typing import Any

from depthlr.study.description import Data, Models, Search, Study
from depthlr.training.training import Training
from experiments.transferbench.tasks import Split, Task


def tiny_task(
    name: str, split: Split = "dev", spec: str = "resnet?width=4", optimizer: str = "sgd", **more: Any
) -> Task:
    study = Study(
        name,
        Models(spec, "blocks", (1, 2, 4)),
        Training(optimizer=optimizer, steps=8, batch=16),
        Data("digits", limit=64),
        Search(low=1e-3, high=30.0, points=25, seeds=(0, 1)),
    )
    return Task(name, split, "resnet", study, **more)
