"""The recipe of a Trainer is what the Trainer does: its loss, its batches, its parameter groups, its step."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.integrations.tiny_gpt2 import gpt2, make_trainer

import depthlr
from depthlr import Recipe, transfer_rate, update_energy
from depthlr.integrations.hf import TrainerStep, rate_callback, recipe_from_trainer, step_batches

transformers = pytest.importorskip("transformers")


def one_batch(recipe: Recipe) -> dict:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return next(iter(recipe.batches))


def test_the_recipe_holds_the_run(tmp_path) -> None:
    options = {"lr_scheduler_type": "cosine", "warmup_steps": 2, "max_steps": 20}
    recipe = recipe_from_trainer(make_trainer(tmp_path, 1, **options))
    assert (recipe.schedule, recipe.steps) == ("warmup-cosine", 20)
    epochs = recipe_from_trainer(make_trainer(tmp_path, 1, max_steps=-1, num_train_epochs=3))
    assert (epochs.schedule, epochs.steps) == ("linear", 3 * 64 // 4)
    assert recipe_from_trainer(make_trainer(tmp_path, 1, lr_scheduler_type="constant")).schedule == "constant"


def test_a_recipe_can_be_read_when_it_is_printed(tmp_path) -> None:
    printed = str(recipe_from_trainer(make_trainer(tmp_path, 1, gradient_accumulation_steps=3)))
    assert "batches=StepBatches(micro_batches=1)" in printed
    assert "optimizer=<function TrainerStep.make_optimizer" in printed


def test_depth_is_that_of_the_model_inside(tmp_path) -> None:
    recipe = recipe_from_trainer(make_trainer(tmp_path, 3))
    ids = torch.zeros(2, 8, dtype=torch.int64)
    alone = depthlr.effective_depth(gpt2(3), {"input_ids": ids})
    assert depthlr.effective_depth(recipe.build(), one_batch(recipe)).total == alone.total == 8


def test_the_energy_is_that_of_the_plain_model_with_the_same_optimizer(tmp_path) -> None:
    """What the Trainer's loss and its groups move is what update_energy measures without a Trainer."""
    trainer = make_trainer(tmp_path, 2)
    recipe = recipe_from_trainer(trainer)
    step = recipe.build()
    batch = one_batch(recipe)
    found = update_energy(step, [batch], None, recipe.optimizer)

    trainer.model = step.model
    decaying = set(trainer.get_decay_parameter_names(step.model))
    named = list(step.model.named_parameters())
    groups = [
        {"params": [p for n, p in named if n in decaying], "weight_decay": 0.1},
        {"params": [p for n, p in named if n not in decaying], "weight_decay": 0.0},
    ]
    assert all(group["params"] for group in groups)
    reference = update_energy(step.model, [batch["batch"]], None, torch.optim.AdamW(groups, lr=3e-3))
    assert found.loss == pytest.approx(reference.loss)
    assert found.mean == pytest.approx(reference.mean)
    assert found.readout == pytest.approx(reference.readout)


class Doubled(transformers.Trainer):
    """A Trainer with a loss and an optimizer of its own."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs)
        loss = 2 * torch.nn.functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())
        return (loss, outputs) if return_outputs else loss

    def create_optimizer(self, model=None):
        if self.optimizer is None:
            self.optimizer = torch.optim.SGD((model or self.model).parameters(), lr=0.5)
        return self.optimizer


def test_overridden_methods_are_used(tmp_path) -> None:
    recipe = recipe_from_trainer(make_trainer(tmp_path, 1, Doubled))
    step, batch = recipe.build(), one_batch(recipe)
    ids = batch["batch"]["input_ids"]
    logits = step.eval()(**batch)["logits"]
    expected = 2 * torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch["batch"]["labels"].flatten())
    assert step(**batch)["loss"].item() == pytest.approx(expected.item())
    assert "labels" in batch["batch"]
    assert ids.shape == (4, 8)
    assert isinstance(recipe.optimizer(step), torch.optim.SGD)
    assert step.trainer.optimizer is None


def test_a_batch_is_what_one_optimizer_step_sees(tmp_path) -> None:
    trainer = make_trainer(tmp_path, 1, gradient_accumulation_steps=3)
    sizes = [len(batch["batch"]["input_ids"]) for batch in step_batches(trainer)]
    assert sizes == [12, 12, 12, 12, 12, 4]
    assert len(step_batches(trainer)) == len(sizes)


class OwnLoader(transformers.Trainer):
    """A Trainer whose loader has a batch size of its own."""

    def get_train_dataloader(self):
        return torch.utils.data.DataLoader(self.train_dataset, batch_size=5, collate_fn=self.data_collator)


def test_micro_batches_of_an_own_loader_are_joined(tmp_path) -> None:
    trainer = make_trainer(tmp_path, 1, OwnLoader, gradient_accumulation_steps=2)
    found = [batch["batch"]["input_ids"] for batch in step_batches(trainer)]
    assert [len(ids) for ids in found] == [10] * 6 + [4]
    assert torch.equal(torch.cat(found), torch.stack([row["input_ids"] for row in trainer.train_dataset]))


def test_mixed_precision_is_used(tmp_path) -> None:
    recipe = recipe_from_trainer(make_trainer(tmp_path, 1, bf16=True))
    step, batch = recipe.build(), one_batch(recipe)
    assert step(**batch)["logits"].dtype == torch.bfloat16
    full = TrainerStep(make_trainer(tmp_path, 1), step.model)
    half, whole = (update_energy(one, [batch], None, recipe.optimizer) for one in (step, full))
    assert half.mean == pytest.approx(whole.mean, rel=0.2)
    assert half.mean != whole.mean


def test_without_model_init_the_model_is_measured_as_it_is(tmp_path) -> None:
    made = make_trainer(tmp_path, 1)
    trainer = transformers.Trainer(model=gpt2(1), args=made.args, train_dataset=made.train_dataset)
    recipe = recipe_from_trainer(trainer)
    assert recipe.build.model is trainer.model


def test_a_rate_is_carried_between_two_trainers(tmp_path) -> None:
    trainers = [make_trainer(tmp_path, layers) for layers in (1, 3)]
    small, large = map(recipe_from_trainer, trainers)
    by_recipes = transfer_rate(3e-3, small, large, rule=depthlr.rules.Measured(seeds=2))
    assert (by_recipes.source_depth, by_recipes.target_depth) == (4, 8)
    assert by_recipes.rate > 0
    law = transfer_rate(3e-3, Recipe.from_trainer(trainers[0]), Recipe.from_trainer(trainers[1]), rule="law")
    assert law.rate == pytest.approx(3e-3 * 2**-1.5)


@pytest.mark.filterwarnings("ignore:.*pin_memory")
def test_the_callback_logs_and_warns_once(tmp_path, caplog) -> None:
    large = make_trainer(tmp_path, 2, learning_rate=10.0)
    carried = depthlr.law.RULES["law"].carry_depths(3e-3, 4, 6)
    callback = rate_callback(large, carried)
    large.add_callback(callback)
    large.train()
    (warned,) = [record for record in caplog.records if record.name == "depthlr.integrations.hf"]
    assert re.match("the learning rate 10 lies outside .* carried to this model by the rule 'law'", warned.message)
    (logged,) = [row for row in large.state.log_history if "depthlr/rule" in row]
    assert logged["depthlr/rule"] == "law"
    assert (logged["depthlr/source_depth"], logged["depthlr/depth"]) == (4, 6)
    assert logged["depthlr/carried_rate"] == carried.rate
    assert logged["depthlr/low"] < carried.rate < logged["depthlr/high"]
    assert logged["depthlr/in_scope"]
    assert logged["depthlr/mean_energy"] > 0
    assert callback.report.carried == carried
    assert large.state.global_step == 2


def test_the_callback_says_what_is_wrong_where_there_is_no_interval(tmp_path, caplog) -> None:
    """A note makes the carried rate doubtful; a rate in use above 3 times the carried one is named as well."""
    carried = depthlr.CarriedRate(1e-3, "measured", 4, 6, 1 / 3, "", ("widths differ.", "losses scatter."))
    outside = dataclasses.replace(carried, in_scope=False)
    notes = "the carried rate is outside the scope of the rule 'measured': widths differ. losses scatter."
    far = "the learning rate {} is {} times the rate carried to this model by the rule 'measured', 0.001."
    for found, rate, sentence in (
        (carried, 2.9e-3, None),
        (carried, 3.1e-3, far.format("0.0031", 3.1)),
        (outside, 1e-3, notes),
        (outside, 0.3, f"{far.format(0.3, 300)} {notes}"),
        (outside, 3e-4, f"{far.format('0.0003', 0.3)} {notes}"),
    ):
        large = make_trainer(tmp_path, 2, learning_rate=rate)
        large.add_callback(rate_callback(large, found, energies=False))
        caplog.clear()
        large.train()
        assert [record.message for record in caplog.records if record.name == "depthlr.integrations.hf"] == (
            [] if sentence is None else [sentence]
        )
        (logged,) = [row for row in large.state.log_history if "depthlr/rule" in row]
        assert logged["depthlr/in_scope"] is found.in_scope


def test_a_run_at_the_rate_of_its_source_is_named(tmp_path, caplog) -> None:
    """The carried rate was not written into the arguments, and the source's lies inside the interval."""
    carried = depthlr.CarriedRate(2.4e-3, "constant", 4, 6, 0.8, "", low=1e-3, high=4e-3)
    trainer = make_trainer(tmp_path, 2, learning_rate=3e-3)
    trainer.add_callback(rate_callback(trainer, carried, energies=False))
    trainer.train()
    (warned,) = [record.message for record in caplog.records if record.name == "depthlr.integrations.hf"]
    assert warned.startswith("the learning rate 0.003 is the source's: set it to the rate carried to this model")


def test_a_run_at_the_carried_rate_reports_it(tmp_path) -> None:
    trainer = make_trainer(tmp_path, 2)
    carried = transfer_rate(3e-3, recipe_from_trainer(make_trainer(tmp_path, 1)), recipe_from_trainer(trainer), seeds=2)
    assert carried.rule == "constant"
    trainer.args.learning_rate = carried.rate
    callback = rate_callback(trainer, carried)
    trainer.add_callback(callback)
    trainer.train()
    assert callback.report.carried == carried
    assert callback.report.rate == carried.rate
    assert callback.report.energy.mean > 0


def test_the_callback_does_not_change_the_run(tmp_path) -> None:
    losses = []
    for watched in (False, True):
        trainer = make_trainer(tmp_path, 2, logging_steps=1, max_steps=3)
        if watched:
            trainer.add_callback(rate_callback(trainer, transfer_rate(3e-3, 4, 6, rule="law")))
        trainer.train()
        losses.append([row["loss"] for row in trainer.state.log_history if "loss" in row])
    assert len(losses[0]) == 3
    assert losses[0] == losses[1]


LAUNCH = {
    "accelerate": "accelerate.commands.launch --multi_gpu --num_processes 2 --num_machines 1 --mixed_precision no "
    "--dynamo_backend no --main_process_port 0",
    "torchrun": "torch.distributed.run --standalone --nproc_per_node 2",
}


@pytest.mark.parametrize("launcher", LAUNCH)
def test_all_ranks_agree(launcher: str, tmp_path) -> None:
    """Rank 1 is given another tuned rate: both report what rank 0 measured, on batches of both ranks."""
    program = Path(__file__).parent / "launched_trainer.py"
    launch = [sys.executable, "-m", *LAUNCH[launcher].split()]
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run([*launch, str(program), str(tmp_path)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert first == second
    assert first["depthlr/depth"] == 6
    assert first["batch"] == 2 * 2 * 4


def test_rates_of_groups_are_right_after_schedules_and_checkpoints(tmp_path) -> None:
    """A run that goes on from its checkpoint ends at the rates of one that was never stopped."""

    def train(steps: int, **options) -> list[float]:
        model = gpt2(2)
        matrices, rest = depthlr.param_groups(model, 1e-2, weight_decay=0.1)
        optimizer = torch.optim.AdamW([matrices, {**rest, "lr": 1e-3}])
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        made = make_trainer(tmp_path, 2, max_steps=steps, save_strategy="steps", save_steps=2)
        trainer = transformers.Trainer(
            model=model, args=made.args, train_dataset=made.train_dataset, optimizers=(optimizer, schedule)
        )
        trainer.train(**options)
        return [group["lr"] for group in optimizer.param_groups]

    whole = train(4)
    assert whole == pytest.approx([1e-2 / 5, 1e-3 / 5])
    assert train(4, resume_from_checkpoint=str(tmp_path / "checkpoint-2")) == pytest.approx(whole)
