"""A pre-LN character GPT trained with AdamW on Shakespeare: "more realistic tasks and models, including language".

The paper's future work, so it prints no number: the law's -3/2 stands beside ours.
"""

from __future__ import annotations

from experiments.paper.recipe import Recipe
from experiments.paper.setting import Setting

TEXT_GPT = Setting(
    name="text-gpt",
    title="Character GPT, pre-LN, AdamW",
    spec="gpt?width=128&heads=4",
    vary="blocks",
    sizes=(2, 4, 6, 8, 12, 16, 24),
    data="text?context=128",
    label="depth",
    low=1e-5,
    high=1.0,
    optimizer="adamw",
    weight_decay=0.1,
    steps=400,
    note="400 steps of 128 windows of 128 characters in `paper`, 100 in `short`",
)

TEXT = Recipe(name="text", title="Text: the paper's future work", places=(), settings=(TEXT_GPT,))
