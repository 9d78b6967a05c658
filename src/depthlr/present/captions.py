"""A study in the words that stand on its plots; of cells that another program trained, what is known and no more."""

from __future__ import annotations

from depthlr.study.results import Results


def loss_label(results: Results) -> str:
    """What a cell is judged by, in words."""
    if not results.described:
        return "loss"
    training = results.study.training
    unit = " (nats)" if training.loss == "cross_entropy" else ""
    if training.metric == "validation":
        return f"validation loss{unit}"
    if training.metric == "last_epoch":
        return f"training loss, mean of the last epoch{unit}"
    count, unit_of_time = (training.steps, "step") if training.steps else (training.epochs, "epoch")
    budget = f"{count} {unit_of_time}s" if count != 1 else f"one {unit_of_time}"
    return f"training loss, mean of {budget}{unit}"


def title_of(results: Results) -> str:
    """The model, and how it was trained, if the study says that."""
    study, training = results.study, results.study.training
    if not results.described:
        return study.model.spec
    return f"{study.model.spec} on {study.data.name}, {training.optimizer}, batch {training.batch}"
