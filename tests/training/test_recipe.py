"""Recipes as people write them: each option does what its plain definition says, alike in every runner."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.training.pretend_gpu import pretend_gpu  # noqa: F401 (a fixture)
from tests.training.test_runners import PATTERNS, stepped
from tests.training.tiny import tiny_task
from torch import nn

from depthlr.data import load_digits
from depthlr.data.examples import one_pass, split
from depthlr.errors import DepthlrError
from depthlr.training import Cell, SerialRunner, Task, Training
from depthlr.training.augment import augment_batch, draw_chances, shift_images
from depthlr.training.graphs import GraphRunner
from depthlr.training.task import HeldOut, WeightAverage
from depthlr.training.training import factors_of

CPU = torch.device("cpu")
CELL = Cell(2, 0, 0.05)


def held_out_task(**training: object) -> Task:
    task = tiny_task(2, PATTERNS["resnet + bn"], **training)
    kept, held_out = split(task.examples, 100)
    return replace(task, examples=kept, held_out=held_out)


def outcome_of(task: Task, cell: Cell = CELL):
    ((_, outcome),) = SerialRunner(task).train([cell])
    return outcome


RECIPES = {
    "betas": {"optimizer": "adamw", "betas": (0.8, 0.9), "eps": 1e-6},
    "decay": {"optimizer": "adamw", "weight_decay": 0.5, "decay": "weights"},
    "muon": {"optimizer": "muon", "muon": "hidden", "weight_decay": 0.1},
    "clip": {"clip": 0.1},
    "label smoothing": {"label_smoothing": 0.2},
    "accumulate": {"accumulate": 4},
    "wsd": {"schedule": "wsd", "warmup": 3, "cooldown": 0.5},
    "flip and crop": {"augment": ["flip", "crop=1"]},
    "mixup": {"augment": ["mixup=0.4"]},
    "cutmix": {"augment": ["cutmix"]},
}


@pytest.mark.parametrize("name", RECIPES)
def test_every_option_changes_the_run_alike_in_both_runners(name: str) -> None:
    task = tiny_task(2, PATTERNS["mlp"], **RECIPES[name])
    losses = outcome_of(task).losses
    # Muon's products are bf16, of which torch and ours round different ones.
    assert stepped(task, CELL) == pytest.approx(losses, rel=2e-2 if name == "muon" else 1e-3)
    kept = {key: value for key, value in RECIPES[name].items() if key == "optimizer"}
    plain = outcome_of(tiny_task(2, PATTERNS["mlp"], **kept)).losses
    if name == "accumulate":  # the mean of equal parts' gradients is the batch's
        assert losses == pytest.approx(plain, rel=1e-4)
    else:
        assert not np.allclose(losses, plain, rtol=1e-4)


def test_a_clipped_step_is_torchs_clipped_step() -> None:
    task = tiny_task(2, PATTERNS["mlp"], steps=2, clip=0.05)
    model = task.build()
    task.initialize(model, 0)
    expected = []
    for indices in task.order(0):
        inputs, target = task.examples.batch(indices)
        loss = F.cross_entropy(model(inputs), target)
        expected.append(loss.item())
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= CELL.rate * parameter.grad
    assert outcome_of(task).losses == pytest.approx(expected, rel=1e-6)


def test_weight_decay_leaves_out_norms_biases_and_embeddings() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4), nn.Conv1d(4, 2, 1))
    training = Training(steps=1, optimizer="adamw", weight_decay=0.1, decay="weights")
    (optimizer,) = training.make_optimizers(model, 0.1)
    decays = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert {name for name, p in model.named_parameters() if decays[id(p)]} == {"1.weight", "3.weight"}
    everywhere = replace(training, decay=None).make_optimizers(model, 0.1)[0].param_groups
    assert [group["weight_decay"] for group in everywhere] == [0.1]


def test_hidden_muon_leaves_embeddings_and_head_to_adamw() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 5))
    training = Training(steps=1, optimizer="muon", muon="hidden")
    muon, adamw = training.make_optimizers(model, 0.1)
    named = {id(p): name for name, p in model.named_parameters()}
    assert [named[id(p)] for p in muon.param_groups[0]["params"]] == ["1.weight"]
    assert len(adamw.param_groups[0]["params"]) == len(named) - 1


def test_wsd_warms_up_stays_and_cools_down() -> None:
    factors = factors_of("wsd", 100, 10, 0.2)
    assert factors[:10] == pytest.approx([(i + 1) / 10 for i in range(10)])
    assert set(factors[10:81]) == {1.0}
    assert factors[81:] == pytest.approx([1 - i / 20 for i in range(1, 20)])
    assert factors_of("warmup-cosine", 100, 0.1) == factors_of("warmup-cosine", 100, 10)


def halving(step: int) -> float:
    return 0.5**step


def test_a_schedule_of_ones_own_is_called_with_the_step() -> None:
    assert factors_of("tests.training.test_recipe:halving", 3) == [1.0, 0.5, 0.25]
    with pytest.raises(DepthlrError, match=r"returned -0\.0.*|finite factor"):
        factors_of("tests.training.test_recipe:broken", 3)


def test_a_schedule_of_ones_own_is_looked_up_once_in_a_run(monkeypatch) -> None:
    looked_up: list[str] = []
    monkeypatch.setattr("depthlr.training.training.python_callable", lambda name: looked_up.append(name) or halving)
    assert factors_of("package:function", 3) == [1.0, 0.5, 0.25]
    assert looked_up == ["package:function"]


def broken(step: int) -> float:
    return float("nan")


# -- augmentation ----------------------------------------------------------------------------------------------------
def test_moved_images_are_flipped_and_shifted() -> None:
    images = torch.arange(2 * 3 * 4 * 4, dtype=torch.float32).view(2, 3, 4, 4)
    still = torch.tensor([[0.9, 0.5, 0.5, 0.0], [0.1, 0.5, 0.5, 0.0]])
    first, second = shift_images(images, still, padding=1, flip=True)
    assert torch.equal(first, images[0])
    assert torch.equal(second, images[1].flip(-1))
    corner = shift_images(images, torch.tensor([[0.9, 0.0, 0.99, 0.0]] * 2), padding=1, flip=True)
    expected = F.pad(images, (1, 1, 1, 1))[:, :, 0:4, 2:6]
    assert torch.equal(corner, expected)


def test_mixed_images_take_the_mean_of_both_losses() -> None:
    images, target = torch.randn(4, 3, 8, 8), torch.tensor([0, 1, 2, 1])
    chance = torch.full((4, 4), 0.3)
    mixed, labels, loss_fn = augment_batch(("mixup=1",), images, target, chance, F.cross_entropy)
    torch.testing.assert_close(mixed, 0.3 * images + 0.7 * images.flip(0))
    logits = torch.randn(4, 3)
    expected = 0.3 * F.cross_entropy(logits, target) + 0.7 * F.cross_entropy(logits, target.flip(0))
    torch.testing.assert_close(loss_fn(logits, labels), expected)


def test_cutmix_weighs_losses_by_the_pixels_it_takes() -> None:
    images, target = torch.randn(2, 1, 10, 10), torch.tensor([0, 1])
    mixed, labels, loss_fn = augment_batch(("cutmix=1",), images, target, torch.full((2, 4), 0.6), F.cross_entropy)
    taken = (mixed == images.flip(0)).float().mean().item()
    assert 0.2 < taken < 0.6
    logits = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    share = 1 - taken
    expected = share * F.cross_entropy(logits, target) + taken * F.cross_entropy(logits, target.flip(0))
    torch.testing.assert_close(loss_fn(logits, labels), expected)


def test_chances_depend_on_the_seed_alone() -> None:
    one, again, other = (draw_chances(("flip", "mixup=0.2"), 5, 8, seed) for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    assert (one[:, :, 3] == one[:, :1, 3]).all()  # one share a batch
    assert 0 <= one.min() <= one.max() <= 1


def brightened(inputs, target):
    return inputs + 1, target


def test_a_batch_transform_of_ones_own_is_applied() -> None:
    own = tiny_task(2, PATTERNS["mlp"], augment="tests.training.test_recipe:brightened", steps=1)
    assert outcome_of(own).losses[0] != outcome_of(tiny_task(2, PATTERNS["mlp"], steps=1)).losses[0]


# -- evaluation ------------------------------------------------------------------------------------------------------
def test_held_out_loss_and_accuracy_are_those_of_the_trained_model() -> None:
    task = held_out_task(evaluate_at=(0.5,))
    outcome = outcome_of(task)
    assert [one.steps for one in outcome.evaluations] == [6, 12]
    model = trained(task)
    model.eval()
    inputs, target = task.held_out.batch(torch.arange(98))  # seven batches of 14: 16 would leave one short
    with torch.no_grad():
        logits = model(inputs)
    assert outcome.evaluations[-1].loss == pytest.approx(F.cross_entropy(logits, target).item(), rel=1e-5)
    assert outcome.evaluations[-1].accuracy == pytest.approx((logits.argmax(1) == target).float().mean().item())


def trained(task: Task) -> nn.Module:
    """By the plain loop, step by step."""
    model = task.build().train()
    task.initialize(model, CELL.seed)
    for indices in task.order(CELL.seed):
        inputs, target = task.examples.batch(indices)
        model.zero_grad()
        F.cross_entropy(model(inputs), target).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= CELL.rate * parameter.grad
    return model


def test_evaluating_changes_nothing_of_the_run() -> None:
    task = held_out_task(evaluate_at=(0.25, 0.5))
    assert np.array_equal(outcome_of(task).losses, outcome_of(replace(task, held_out=None)).losses)


@pytest.mark.usefixtures("pretend_gpu")
def test_a_captured_run_evaluates_like_the_serial_one() -> None:
    task = held_out_task(evaluate_at=(0.5,), optimizer="adamw", ema=0.5, augment=["flip"])
    runner = GraphRunner(task, "cpu", most=2)
    found = dict(runner.train([CELL, Cell(2, 1, 0.05)]))
    for cell, outcome in SerialRunner(task).train(list(found)):
        assert found[cell].losses == pytest.approx(outcome.losses, rel=1e-4)
        for mine, theirs in zip(found[cell].evaluations, outcome.evaluations, strict=True):
            assert (mine.steps, mine.accuracy) == (theirs.steps, theirs.accuracy)
            assert mine.loss == pytest.approx(theirs.loss, rel=1e-3)


def test_the_average_of_weights_is_evaluated() -> None:
    model = nn.Linear(3, 2)
    average = WeightAverage(held_out_task(), model, 0.9)
    first = deepcopy(model.weight.detach())
    with torch.no_grad():
        model.weight += 1
    average.update(model)
    torch.testing.assert_close(average.model.weight, first + 0.1)
    with_average, without = (outcome_of(held_out_task(ema=ema)) for ema in (0.99, None))
    assert np.array_equal(with_average.losses, without.losses)
    assert with_average.evaluations[-1].loss != without.evaluations[-1].loss


def test_a_run_that_diverged_is_not_evaluated() -> None:
    outcome = outcome_of(held_out_task(), Cell(2, 0, 1e12))
    assert outcome.diverged
    assert outcome.evaluations == ()


def test_a_pass_sees_every_example_once_in_equal_batches() -> None:
    examples = load_digits()
    held_out = HeldOut(tiny_task(2), examples, CPU)
    assert held_out._order.unique().numel() == held_out._order.numel() > len(examples) - held_out.batches
    assert one_pass(examples).numel() == len(examples)


@pytest.mark.usefixtures("pretend_gpu")
def test_a_step_that_cannot_be_captured_is_taken_otherwise(monkeypatch) -> None:
    def refuses(function, stream):
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    monkeypatch.setattr("depthlr.training.graphs.capture", refuses)
    task = held_out_task()
    with pytest.warns(UserWarning, match="cannot be captured .*previous error during capture.*runs compiled instead"):
        runner = GraphRunner(task, "cpu")
    assert (runner.way, runner.capacity) == ("compiled", 1)
    ((_, outcome),) = runner.train([CELL])
    assert outcome.losses == pytest.approx(outcome_of(task).losses, rel=1e-4)


@pytest.mark.usefixtures("pretend_gpu")
def test_where_compiling_fails_too_steps_are_eager(monkeypatch) -> None:
    def refuses(*_):
        raise RuntimeError("no compiler")

    monkeypatch.setattr("depthlr.training.capturable.compile_repeated", refuses)
    with pytest.warns(UserWarning, match="no compiler"):
        assert GraphRunner(tiny_task(2), "cpu").way == "eager"


BAD = {
    "accumulate = 3": {"accumulate": 3},
    "betas": {"optimizer": "adamw", "betas": (0.9,)},
    "betas of sgd": {"betas": (0.9, 0.99)},
    "cooldown": {"cooldown": 0.1},
    "warmup of 1.5 steps": {"schedule": "warmup", "warmup": 1.5},
    "warmup beyond the end": {"schedule": "warmup", "warmup": 16},
    "clip": {"clip": 0.0},
    "augment": {"augment": ["rotate"]},
    "augment twice": {"augment": ["flip", "flip"]},
    "augment by words": {"augment": ["crop=wide"]},
    "a flip of a number": {"augment": ["flip=2"]},
    "both mixes": {"augment": ["mixup", "cutmix"]},
    "share": {"evaluate_at": (1.5,)},
    "smoothing of an own loss": {"label_smoothing": 0.1, "loss": "mine:loss"},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_entries_are_refused_in_a_sentence(name: str) -> None:
    with pytest.raises(DepthlrError, match="training"):
        Training(**{"steps": 16, "batch": 16, **BAD[name]})


@pytest.mark.parametrize(("entry", "message"), [("crop=65", "at most 64"), ("crop=0", "at least 1"), ("mixup=-1", "0")])
def test_an_augmentation_out_of_bounds_is_told_its_bounds(entry: str, message: str) -> None:
    with pytest.raises(DepthlrError, match=rf"^{entry.partition('=')[0]} in training.augment is .*{message}"):
        Training(steps=16, augment=[entry])
