"""A Trainer of a tiny GPT-2 on random tokens, for the tests and for the processes that they launch."""

from __future__ import annotations

from typing import Any

import torch

from depthlr.models.libraries import import_torchvision

import_torchvision()

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments  # noqa: E402


def tokens(count: int = 64, length: int = 8) -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(32, (count, length), generator=generator)
    return [{"input_ids": row, "labels": row.clone()} for row in rows]


def gpt2(layers: int) -> GPT2LMHeadModel:
    config = GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_head=2, n_layer=layers, use_cache=False)
    return GPT2LMHeadModel(config)


def make_trainer(folder: Any, layers: int, kind: type[Trainer] = Trainer, **options: Any) -> Trainer:
    """A Trainer with `model_init`; `options` are those of `TrainingArguments`."""
    given: dict[str, Any] = {
        "per_device_train_batch_size": 4,
        "max_steps": 2,
        "learning_rate": 3e-3,
        "weight_decay": 0.1,
        "report_to": [],
        "use_cpu": True,
        "save_strategy": "no",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }
    arguments = TrainingArguments(output_dir=str(folder), **{**given, **options})
    return kind(model_init=lambda: gpt2(layers), args=arguments, train_dataset=tokens())
