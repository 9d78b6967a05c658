"""The frozen list of recipes: 6 to design rules on, 10 to judge them, 4 of these of families that the design lacks.

Each is a model as its library initializes it, an optimizer, a schedule, regularization, data and 1,200 steps, at four
sizes that span a factor of 8 in layers, with two seeds, judged by the validation loss at the end. A judged recipe is
replaced before judging if its validation loss at the best rate rises over the last quarter of training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

from depthlr.errors import DepthlrError
from depthlr.models.spec import parse_spec
from depthlr.spec_text import parse_value, split_spec
from depthlr.study.description import Data, Models, Search, Study
from depthlr.training.training import Training

Split = Literal["design", "judged"]
STEPS = 1_200
SIZES = (2, 4, 8, 16)
STAGE_SIZES = (1, 2, 4, 8)  # blocks in each stage
SEEDS = (0, 1)
PER_DECADE = 8
SMOKE_STEPS, NARROW, NARROW_IMAGES = 4, 64, 8
MODELS, DATA = "experiments.realbench.models", "experiments.realbench.data"

ADAMW = {"optimizer": "adamw", "weight_decay": 0.05, "decay": "weights"}
LANGUAGE = {"optimizer": "adamw", "betas": (0.9, 0.95), "weight_decay": 0.1, "decay": "weights", "clip": 1.0}
MUON = LANGUAGE | {"optimizer": "muon", "muon": "hidden"}
COSINE = {"schedule": "warmup-cosine", "warmup": 0.1}
WSD = {"schedule": "wsd", "warmup": 0.1, "cooldown": 0.2}
LINEAR = {"schedule": "warmup-linear", "warmup": 0.1}
TEXT = Data(f"{DATA}:text", validation=512)
MASKED = Data(f"{DATA}:masked", validation=512)
CIFAR10 = Data(f"{DATA}:images?name=cifar10", validation=5_000)
CIFAR100 = Data(f"{DATA}:images?name=cifar100", validation=5_000)
SPOKEN = Data(f"{DATA}:spoken", validation=500)
MOVED = {"augment": ("flip", "crop=4")}
SHIFTED = {"augment": ("crop=4", "mixup=0.4")}


@dataclass(frozen=True)
class RealRecipe:
    """A sweep of RealBench, and the half it belongs to."""

    name: str
    split: Split
    family: str
    study: Study


def _recipe(
    split: Split,
    name: str,
    model: str,
    data: Data,
    low: float,
    high: float,
    *options: dict[str, Any],
    vary: str = "layers",
    sizes: tuple[int, ...] = SIZES,
    batch: int = 128,
) -> RealRecipe:
    entries: dict[str, Any] = {}
    for option in options:
        entries |= option
    training = Training(
        steps=STEPS,
        batch=batch,
        precision="bf16",
        variance="own",
        metric="validation",
        evaluate_at=(0.25, 0.5, 0.75),
        **entries,
    )
    decades = round(math.log10(high / low))
    search = Search("adaptive", low, high, PER_DECADE * decades + 1, SEEDS)
    family = model.partition("?")[0]
    study = Study(name, Models(f"{MODELS}:{model}", vary, sizes), training, data, search)
    return RealRecipe(name, split, family, study)


def _blocks(*arguments: Any, **options: Any) -> RealRecipe:
    return _recipe(*arguments, vary="blocks", **options)


def _stages(*arguments: Any, **options: Any) -> RealRecipe:
    return _recipe(*arguments, vary="blocks", sizes=STAGE_SIZES, **options)


SMOOTHED = {"label_smoothing": 0.1}
MOMENTUM = {"optimizer": "momentum", "momentum": 0.9, "weight_decay": 5e-4}

RECIPES: tuple[RealRecipe, ...] = (
    _recipe("design", "gpt2-adamw-cosine", "gpt2", TEXT, 1e-5, 1e-1, LANGUAGE, COSINE, batch=32),
    _recipe("design", "llama-muon-cosine", "llama", TEXT, 1e-5, 1e-1, MUON, COSINE, batch=32),
    _recipe("design", "llama-adamw-wsd", "llama", TEXT, 1e-5, 1e-1, LANGUAGE, WSD, batch=32),
    _blocks("design", "vit-adamw-cosine", "vit", CIFAR10, 1e-5, 1e-1, ADAMW, COSINE, SMOOTHED, MOVED),
    _stages("design", "resnet-momentum-cosine", "resnet", CIFAR10, 1e-3, 10.0, MOMENTUM, COSINE, MOVED),
    _stages("design", "convnext-adamw-cosine", "convnext", CIFAR10, 1e-5, 1e-1, ADAMW, COSINE, SMOOTHED, MOVED),
    _recipe("judged", "gpt2-muon-cosine", "gpt2?width=192", TEXT, 1e-5, 1e-1, MUON, COSINE, batch=48),
    _recipe("judged", "gpt2-adamw-wsd", "gpt2?width=320", TEXT, 1e-5, 1e-1, LANGUAGE, WSD, batch=32),
    _recipe(
        "judged",
        "llama-adamw-linear",
        "llama?width=320",
        TEXT,
        1e-5,
        1e-1,
        LANGUAGE,
        {"weight_decay": 0.01},
        LINEAR,
        batch=32,
    ),
    _blocks(
        "judged",
        "vit-adamw-mixup",
        "vit?classes=100&width=256",
        CIFAR100,
        1e-5,
        1e-1,
        ADAMW,
        COSINE,
        {"augment": ("flip", "crop=4", "mixup=0.2")},
    ),
    _stages(
        "judged",
        "resnet-momentum-plain",
        "resnet?classes=100&zero_init=false",
        CIFAR100,
        1e-3,
        10.0,
        MOMENTUM,
        {"weight_decay": 0.0},
        COSINE,
        MOVED,
    ),
    _stages("judged", "resnet-momentum-wsd", "resnet?width=48", CIFAR10, 1e-3, 10.0, MOMENTUM, WSD, MOVED),
    _blocks("judged", "mixer-adamw-cosine", "mixer", CIFAR10, 1e-5, 1e-1, ADAMW, COSINE, SMOOTHED, MOVED),
    _recipe("judged", "bert-adamw-linear", "bert", MASKED, 1e-5, 1e-1, LANGUAGE, LINEAR, batch=32),
    _blocks("judged", "cct-adamw-cosine", "cct", CIFAR100, 1e-5, 1e-1, ADAMW, COSINE, MOVED),
    _recipe("judged", "spoken-adamw-mixup", "spoken", SPOKEN, 1e-5, 1e-1, ADAMW, COSINE, SHIFTED, batch=64),
)


TRAINING_KEYS = ("steps", "batch", "weight_decay", "variance", "metric", "momentum", "muon", "precision")


def recipe_named(name: str) -> RealRecipe:
    """The recipe of that name, or a variant of it: `gpt2-adamw-cosine?steps=300&sizes=2,16`.

    A variant replaces an entry of the training (`steps`, `batch`, `weight_decay`, `momentum`, `muon`, `precision`;
    `variance`, own or gating, is the initialization, and `metric` the judge), `seeds`, `sizes`, or an argument of the
    model, such as `width`.

    Raises:
        DepthlrError: there is no such recipe.
    """
    base, changes = split_spec(name, "steps=300")
    found = next((recipe for recipe in RECIPES if recipe.name == base), None)
    if found is None:
        raise DepthlrError(f"there is no recipe {base!r}: python -m experiments.realbench list.")
    study = found.study
    training, model, search = study.training, study.model, study.search
    for key, text in changes.items():
        value: Any = parse_value(text)
        if key in TRAINING_KEYS:
            training = replace(training, **{key: value})
        elif key == "seeds":
            search = replace(search, seeds=value if isinstance(value, tuple) else (value,))
        elif key == "sizes":
            model = replace(model, sizes=value if isinstance(value, tuple) else (value,))
        else:
            model = replace(model, spec=str(parse_spec(str(model.spec)).with_arguments(**{key: value})))
    suffix = "".join(f"+{key}{text.replace(',', '-')}" for key, text in sorted(changes.items()))
    changed = replace(study, name=base + suffix, training=training, model=model, search=search)
    return replace(found, name=base + suffix, study=changed)


def smoked(recipe: RealRecipe) -> RealRecipe:
    """The recipe cut short, to see that it runs: a few steps at two sizes of a narrow model, three rates, one seed."""
    study = recipe.study
    spec = parse_spec(str(study.model.spec))
    width = NARROW_IMAGES if spec.name.endswith(("resnet", "convnext")) else NARROW
    second = recipe_named(recipe.name.partition("+")[0]).study.model.sizes[1]
    sizes = tuple(dict.fromkeys(min(size, second) for size in study.model.sizes))
    training = replace(study.training, steps=SMOKE_STEPS, epochs=None, batch=4, precision="fp32")
    search = replace(study.search, kind="grid", points=3, seeds=study.search.seeds[:1], low=1e-4, high=1e-2)
    shorter = replace(
        study,
        model=replace(study.model, spec=str(spec.with_arguments(width=width)), sizes=sizes),
        training=training,
        search=search,
        data=replace(study.data, validation=8),
    )
    return replace(recipe, study=shorter)
