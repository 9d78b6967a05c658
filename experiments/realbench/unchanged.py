"""Models of libraries, swept as they are: each study of `unchanged/` names a library's model and changes nothing in it.

    python -m experiments.realbench.unchanged --data realbench-data --out results/realbench/unchanged.csv   # a GPU
    python -m experiments.realbench.unchanged --data realbench-data --smoke                                 # a CPU

Each sweep ends with one row: cells, seconds, how a training step ran (captured, compiled or eager) and the tuned rates.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import nn

from depthlr.formatting import rate_text
from depthlr.models.libraries import import_torchvision
from depthlr.study.description import Study, read_study
from depthlr.study.run import sweep
from depthlr.study.tasks import depths_of, load_data, task_at
from depthlr.training.device import default_device
from depthlr.training.executor import BySize, Executor
from depthlr.training.graphs import GraphRunner
from depthlr.training.serial import SerialRunner

STUDIES = Path(__file__).with_name("unchanged")
SMOKE_STEPS = 8


@dataclass(frozen=True)
class Unchanged:
    """What a sweep of an unchanged model took, and what it found.

    Args:
        study: The name of the study.
        cells: How many cells were trained.
        failed: How many of them failed.
        seconds: Of the whole sweep, compilation included.
        ran: How a training step ran at each size.
        tuned: The tuned rate at each size.
    """

    study: str
    cells: int
    failed: int
    seconds: float
    ran: str
    tuned: str


def resnet(blocks: int, classes: int = 10) -> nn.Module:
    """timm's ResNet of basic blocks with `blocks` blocks in each of four stages."""
    import_torchvision()
    library = import_module("timm.models.resnet")
    made: nn.Module = library.ResNet(library.BasicBlock, layers=(blocks,) * 4, num_classes=classes)
    return made


def sweep_unchanged(study: Study, work: Path) -> Unchanged:
    """Sweep a study with the fastest executor of this machine.

    Args:
        study: The study, with the folder of its data.
        work: The folder of the sweep's file; a finished cell is not trained again.
    """
    examples, held_out = load_data(study)
    device = default_device()
    ran: dict[int, str] = {}

    def open_runner(size: int) -> Executor:
        task = task_at(study, size, examples, held_out)
        if not device.startswith("cuda"):
            ran[size] = "eager"
            return SerialRunner(task, device)
        runner = GraphRunner(task, device)
        ran[size] = f"{runner.way}, {runner.capacity} at once"
        return runner

    start = time.perf_counter()
    executor = BySize(open_runner)
    try:
        depths = depths_of(study, examples.input)
        file = work / f"{study.name}.sqlite"
        results = sweep(study, executor, file, examples=examples, held_out=held_out, depths=depths)
    finally:
        executor.close()
    return Unchanged(
        study.name,
        len(results.records),
        sum(bool(record.failure) for record in results.records),
        round(time.perf_counter() - start, 1),
        "; ".join(f"{size}: {way}" for size, way in ran.items()),
        "; ".join(f"{size}: {rate_text(rate)}" for size, rate in results.tuned_rates.items()),
    )


def shortened(study: Study) -> Study:
    """The study cut down to what a CPU runs in seconds: that it runs is all that this shows."""
    training = replace(study.training, steps=SMOKE_STEPS, epochs=None, batch=8, precision="fp32")
    model = replace(study.model, sizes=study.model.sizes[:1])
    search = replace(study.search, kind="grid", points=3)
    return replace(study, model=model, training=training, search=search, data=replace(study.data, validation=16))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="the folder of the packed data")
    parser.add_argument("--only", nargs="+", help="names of studies, such as hf-gpt2 [all]")
    parser.add_argument("--out", type=Path, help="a CSV file for the rows; a row is written when its sweep ends")
    parser.add_argument("--smoke", action="store_true", help="a few steps at the smallest size")
    options = parser.parse_args(arguments)
    names = options.only or sorted(file.stem for file in STUDIES.glob("*.toml"))
    rows: list[dict[str, Any]] = []
    for name in names:
        study = read_study(STUDIES / f"{name}.toml")
        study = replace(study, data=replace(study.data, folder=options.data))
        with tempfile.TemporaryDirectory() as work:
            found = sweep_unchanged(shortened(study) if options.smoke else study, Path(work))
        print(found, flush=True)
        rows.append(vars(found))
        if options.out is not None:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            with open(options.out, "w", newline="") as file:
                writer = csv.DictWriter(file, [field.name for field in fields(Unchanged)], lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
