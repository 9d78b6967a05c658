"""The frozen list: what it holds, that its models are what they are called, and that its data are what they say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from torch import nn

from depthlr.data.text import TextSet
from depthlr.models.build import build
from depthlr.trace.depth import effective_depth
from experiments.realbench.data import MASK, NO_TARGET, Masked
from experiments.realbench.models import gpt2, llama, resnet
from experiments.realbench.plan import PARTS
from experiments.realbench.recipes import RECIPES, recipe_named

INPUTS = {"text": "ids:256:256", "masked": "ids:256:257", "images": "3x32x32", "spoken": "1x32x64"}
SMALLEST = {"convnext-adamw-cosine": 10, "bert-adamw-linear": 7, "cct-adamw-cosine": 7}  # the others count 6


def test_the_list_has_six_recipes_to_design_on_and_ten_to_judge_four_of_new_families() -> None:
    assert Counter(recipe.split for recipe in RECIPES) == {"design": 6, "judged": 10}
    families = {recipe.family for recipe in RECIPES if recipe.split == "design"}
    assert {recipe.family for recipe in RECIPES} - families == {"mixer", "bert", "cct", "spoken"}
    assert len({recipe.name for recipe in RECIPES}) == len({recipe.study.digest for recipe in RECIPES}) == 16


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_every_recipe_is_real_training(recipe) -> None:
    training, sizes = recipe.study.training, recipe.study.model.sizes
    assert (training.steps, training.metric, training.variance) == (1200, "validation", "own")
    assert training.schedule in {"warmup-cosine", "warmup-linear", "wsd"}
    assert sizes[-1] == 8 * sizes[0]
    assert len(recipe.study.search.seeds) == 2
    assert recipe.study.search.spacing == pytest.approx(1 / 8)


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_the_smallest_model_has_the_depth_that_its_table_names(recipe) -> None:
    source = recipe.study.data.name.partition(":")[2].partition("?")[0]
    smallest = recipe.study.model.spec_at(recipe.study.model.sizes[0])
    depth = effective_depth(*build(smallest, input=INPUTS[source], meta=True))
    assert depth.total == SMALLEST.get(recipe.name, 6)


@pytest.mark.parametrize("variant", [job.variant for part in PARTS for job in part.jobs(Path()) if "?" in job.variant])
def test_a_variant_is_as_deep_as_its_recipe(variant) -> None:
    """It builds, and what it changes is no depth."""
    recipe = recipe_named(variant)
    source = recipe.study.data.name.partition(":")[2].partition("?")[0]
    size = recipe.study.model.sizes[0]
    models = recipe.study.model, recipe_named(recipe.name.partition("+")[0]).study.model
    depths = {effective_depth(*build(model.spec_at(size), input=INPUTS[source], meta=True)).total for model in models}
    assert len(depths) == 1


def test_group_norm_replaces_every_batch_norm_and_keeps_the_last_gain_at_zero() -> None:
    model = resnet(2, width=8, norm="group")
    norms = [module for module in model.modules() if isinstance(module, nn.GroupNorm)]
    assert not any(isinstance(module, nn.BatchNorm2d) for module in model.modules())
    assert {norm.num_groups for norm in norms} == {8}
    assert sum(bool((norm.weight == 0).all()) for norm in norms) == 8  # one in each block


@pytest.mark.parametrize("make", [gpt2, llama])
def test_attention_without_a_mask_gives_the_librarys_numbers(make) -> None:
    torch.manual_seed(0)
    model: nn.Module = make(layers=1, width=64, context=16).eval()
    ids = torch.randint(256, (2, 16))
    ours = model(ids).logits
    model.set_attn_implementation("sdpa")
    assert torch.equal(ours, model(ids).logits)


def test_masked_windows_hide_about_15_percent_always_the_same() -> None:
    ids = torch.randint(256, (64 * 100 + 1,), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    text = TextSet("text", ids, 64, "".join(map(chr, range(256))), "digest", "ours", stride=64)
    masked = Masked(text, torch.arange(64) * 7919 + 1)
    inputs, target = masked.batch(torch.arange(len(text)))
    hidden = inputs == MASK
    assert 0.12 < hidden.float().mean() < 0.18
    assert torch.equal(hidden, target != NO_TARGET)
    assert torch.equal(torch.where(hidden, target, inputs), text.batch(torch.arange(len(text)))[0])
    assert torch.equal(inputs[3:5], masked.batch(torch.tensor([3, 4]))[0])


def test_a_recipe_is_found_by_name() -> None:
    assert recipe_named("gpt2-adamw-cosine").study.training.optimizer == "adamw"
