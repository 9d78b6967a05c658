"""A study in the words that stand on its plots."""

from __future__ import annotations

from depthlr.study.description import Study


def loss_label(study: Study) -> str:
    """What a cell is judged by, in words."""
    training = study.training
    unit = " (nats)" if training.loss == "cross_entropy" else ""
    if training.metric == "last_epoch":
        return f"training loss, mean of the last epoch{unit}"
    count, unit_of_time = (training.steps, "step") if training.steps else (training.epochs, "epoch")
    budget = f"{count} {unit_of_time}s" if count != 1 else f"one {unit_of_time}"
    return f"training loss, mean of {budget}{unit}"


def title_of(study: Study) -> str:
    training = study.training
    return f"{study.model.spec} on {study.data.name}, {training.optimizer}, batch {training.batch}"
