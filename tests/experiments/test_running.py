"""Cells and sweeps of the experiments are evaluated on the held-out examples of their study."""

from __future__ import annotations

import pytest

from depthlr.study import open_store, parse_study, read_results
from depthlr.study.tasks import load_data
from depthlr.training import Cell
from experiments.running import Deadline, sweep_study, train_cells

STUDY = parse_study("""
[model]
spec = "mlp?width=8"
vary = "layers"
sizes = [1]
[data]
validation = 100
[training]
steps = 2
batch = 32
metric = "validation"
[search]
kind = "grid"
low = 0.01
high = 0.1
points = 3
seeds = 1
""")


@pytest.mark.parametrize("whole", [True, False])
def test_a_study_judged_by_validation_is_evaluated(tmp_path, whole: bool) -> None:
    examples, held_out = load_data(STUDY)
    path, until = tmp_path / "s.sqlite", Deadline()
    if whole:
        sweep_study(STUDY, examples, {1: 2}, path, until, held_out=held_out, workers=1)
    else:
        with open_store(path, STUDY) as store:
            train_cells(STUDY, examples, [Cell(1, 0, 0.01)], store, until, held_out=held_out, workers=1)
    records = read_results(path).records
    assert len(records) == (3 if whole else 1)
    assert not any(record.diverged for record in records)
