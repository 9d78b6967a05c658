"""The frozen list of tasks.

`dev` are the ten settings on which rules were and are designed: six on CIFAR-10 as they were first measured (12,800
images, batch 128, 100 steps), and four of 200 steps at batch 64, of which only the kind was fixed: pre-LN ViT and GPT
with AdamW, a BatchNorm ResNet with momentum, a tanh MLP with SGD; widths and sizes are chosen here. `first` are the
tasks on which the first rule was evaluated, once. Since then rules are designed on them too. `test` tasks share no
(family, optimizer, data, schedule) with either, and are evaluated once, after a rule is chosen. `peers` are twins of
residual tasks in the parametrisation that Depth-muP or CompleteP prescribes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from depthlr.study.description import Data, Models, Search, Study
from depthlr.training.training import Training
from experiments.transferbench.task import Split, Task

IMAGES = 12_800  # 100 batches of 128
LAYERS = (3, 6, 12, 24)
BLOCKS = (2, 4, 8, 16)
SIX_RESNET = (3, 4, 6, 8, 12, 16, 24, 30)
SIX_CNN = (3, 4, 6, 8, 12, 16)
SIX_VIT = (2, 4, 6, 8, 12, 16)
# 80 rates over five decades: 16 a decade.
SGD = Search(low=1e-4, high=10.0)
SMALL = Search(low=1e-5, high=1.0)
ADAM = Search(low=1e-6, high=0.1)


def _task(
    split: Split,
    family: str,
    spec: str,
    vary: str,
    sizes: tuple[int, ...],
    data: str,
    search: Search,
    *,
    tag: str = "",
    limit: int | None = IMAGES,
    paper_width: bool = False,
    sequences: bool = False,
    **training: Any,
) -> Task:
    budget = Training(**training)
    cosine = "" if budget.schedule == "constant" else "cosine"
    words = (family, budget.optimizer, data.partition("?")[0], cosine, tag)
    name = "-".join(word for word in words if word)
    study = Study(name, Models(spec, vary, sizes), budget, Data(data, limit=limit), search)
    return Task(name, split, family, study, paper_width, sequences)


def _twin(task: Task, rule: str, spec: str) -> Task:
    """The same task, its model in a peer's parametrisation."""
    name = f"{task.name}-{rule}"
    vary, sizes = task.study.model.vary, task.study.model.sizes
    # The multiplier in the forward pass takes the place of K^(-1/2) at initialization.
    training = replace(task.study.training, branch_scale="none")
    study = replace(task.study, name=name, model=Models(spec, vary, sizes), training=training)
    return replace(task, name=name, split="peers", study=study, twin=task.name, rule=rule)


VIT = "vit?width=384&heads=6&patch=4"
GPT = "gpt?width=128&heads=4"
TEXT = "text?context=128"
PARAMETRISED = "experiments.transferbench.parametrised"
SCALED = "experiments.transferbench.scaled"
SHORT: dict[str, Any] = {"batch": 128, "steps": 100}
LONGER: dict[str, Any] = {"batch": 64, "steps": 200}
COSINE = "warmup-cosine"

DEV = (
    _task("dev", "resnet", "resnet?width=64", "blocks", SIX_RESNET, "cifar10", SGD, paper_width=True, **SHORT),
    _task("dev", "cnn", "cnn?width=64", "layers", SIX_CNN, "cifar10", SGD, paper_width=True, **SHORT),
    _task("dev", "vit-post", VIT, "blocks", SIX_VIT, "cifar10", SMALL, paper_width=True, **SHORT),
    _task(
        "dev",
        "resnet",
        "resnet?width=64",
        "blocks",
        LAYERS,
        "cifar10",
        ADAM,
        paper_width=True,
        optimizer="adam",
        **SHORT,
    ),
    _task("dev", "cnn", "cnn?width=64", "layers", LAYERS, "cifar10", ADAM, paper_width=True, optimizer="adam", **SHORT),
    _task("dev", "vit-post", VIT, "blocks", BLOCKS, "cifar10", ADAM, paper_width=True, optimizer="adam", **SHORT),
    _task(
        "dev",
        "vit-pre",
        f"{VIT}&norm=pre",
        "blocks",
        BLOCKS,
        "cifar10",
        ADAM,
        optimizer="adamw",
        weight_decay=0.1,
        **LONGER,
    ),
    _task("dev", "gpt", GPT, "blocks", BLOCKS, TEXT, SMALL, limit=None, optimizer="adamw", weight_decay=0.1, **LONGER),
    _task(
        "dev",
        "resnet-bn",
        "resnet?width=64&batch_norm=true",
        "blocks",
        LAYERS,
        "cifar10",
        SGD,
        paper_width=True,
        optimizer="momentum",
        **LONGER,
    ),
    _task("dev", "mlp", "mlp?width=256&activation=tanh", "layers", LAYERS, "cifar10", SGD, **LONGER),
)

FIRST_JUDGED = (
    _task(
        "first",
        "cnn",
        "cnn?width=64&classes=100",
        "layers",
        LAYERS,
        "cifar100",
        SMALL,
        paper_width=True,
        optimizer="momentum",
        **SHORT,
    ),
    _task(
        "first",
        "resnet",
        "resnet?width=64&classes=100",
        "blocks",
        LAYERS,
        "images?size=64",
        SGD,
        limit=None,  # they come class by class
        paper_width=True,
        schedule=COSINE,
        batch=64,
        steps=150,
    ),
    _task(
        "first",
        "resnet",
        "resnet?width=64&classes=100",
        "blocks",
        LAYERS,
        "cifar100",
        SGD,
        tag="epochs",
        paper_width=True,
        batch=128,
        epochs=3,
        metric="last_epoch",
    ),
    _task(
        "first",
        "resnet-bn",
        "resnet?width=64&classes=100&batch_norm=true",
        "blocks",
        LAYERS,
        "cifar100",
        SMALL,
        paper_width=True,
        optimizer="adamw",
        weight_decay=0.1,
        schedule=COSINE,
        **SHORT,
    ),
    _task("first", "mlp", "mlp?width=256&classes=100", "layers", LAYERS, "cifar100", ADAM, optimizer="adam", **LONGER),
    _task(
        "first",
        "vit-post",
        f"{VIT}&classes=100",
        "blocks",
        BLOCKS,
        "cifar100",
        SMALL,
        paper_width=True,
        optimizer="momentum",
        schedule=COSINE,
        **SHORT,
    ),
    _task(
        "first",
        "vit-pre",
        f"{VIT}&norm=pre&classes=100",
        "blocks",
        BLOCKS,
        "cifar100",
        SMALL,
        optimizer="muon",
        **SHORT,
    ),
    _task(
        "first",
        "vit-pre",
        "vit?width=384&heads=6&patch=8&norm=pre&classes=100",
        "blocks",
        BLOCKS,
        "images?size=64",
        ADAM,
        limit=None,
        optimizer="adamw",
        weight_decay=0.1,
        schedule=COSINE,
        **SHORT,
    ),
    _task(
        "first",
        "beit",
        "beit?width=384&heads=6&patch=4",
        "blocks",
        BLOCKS,
        "cifar10",
        ADAM,
        paper_width=True,
        optimizer="adamw",
        weight_decay=0.1,
        schedule=COSINE,
        **SHORT,
    ),
    _task(
        "first",
        "cct",
        "cct?width=384&heads=6&tokenizer_layers=2",
        "blocks",
        BLOCKS,
        "cifar10",
        ADAM,
        paper_width=True,
        optimizer="adam",
        **SHORT,
    ),
    _task(
        "first",
        "cnn1d",
        "cnn1d?width=96",
        "layers",
        LAYERS,
        "wav?mels=48&frames=48",
        SGD,
        limit=None,
        sequences=True,
        batch=128,
        steps=184,  # eight epochs: one has 23 steps
    ),
    _task(
        "first",
        "gpt",
        GPT,
        "blocks",
        BLOCKS,
        TEXT,
        SMALL,
        limit=None,
        optimizer="adamw",
        weight_decay=0.1,
        schedule=COSINE,
        **LONGER,
    ),
    _task(
        "first",
        "resnet",
        f"{SCALED}:resnet",
        "scale",
        (1, 2, 4, 8),
        "cifar10",
        SMALL,
        tag="scaled",
        optimizer="momentum",
        **SHORT,
    ),
    _task(
        "first",
        "gpt",
        f"{SCALED}:gpt",
        "scale",
        (1, 2, 4, 8),
        TEXT,
        ADAM,
        tag="scaled",
        limit=None,
        optimizer="adam",
        schedule=COSINE,
        batch=64,
        steps=150,
    ),
)

TEST = (
    _task("test", "cnn", "cnn?width=64&classes=100", "layers", LAYERS, "cifar100", SGD, paper_width=True, **SHORT),
    _task(
        "test",
        "resnet",
        "resnet?width=64&classes=100",
        "blocks",
        LAYERS,
        "cifar100",
        ADAM,
        paper_width=True,
        optimizer="adamw",
        weight_decay=0.1,
        **SHORT,
    ),
    _task(
        "test",
        "resnet",
        "resnet?width=64&classes=100",
        "blocks",
        LAYERS,
        "cifar100",
        SMALL,
        paper_width=True,
        optimizer="momentum",
        **SHORT,
    ),
    _task(
        "test", "vit-pre", f"{VIT}&norm=pre&classes=100", "blocks", BLOCKS, "cifar100", ADAM, optimizer="adam", **SHORT
    ),
    _task(
        "test",
        "vit-post",
        f"{VIT}&classes=100",
        "blocks",
        BLOCKS,
        "cifar100",
        ADAM,
        paper_width=True,
        optimizer="adamw",
        weight_decay=0.1,
        schedule=COSINE,
        **SHORT,
    ),
    _task(
        "test",
        "cct",
        "cct?width=384&heads=6&tokenizer_layers=2",
        "blocks",
        BLOCKS,
        "cifar10",
        SMALL,
        paper_width=True,
        optimizer="momentum",
        **SHORT,
    ),
    _task("test", "gpt", GPT, "blocks", BLOCKS, TEXT, SMALL, limit=None, optimizer="adam", **LONGER),
    _task(
        "test",
        "mlp",
        "mlp?width=256&activation=gelu",
        "layers",
        LAYERS,
        "cifar10",
        SMALL,
        optimizer="momentum",
        schedule=COSINE,
        **LONGER,
    ),
    _task(
        "test",
        "cnn1d",
        "cnn1d?width=96",
        "layers",
        LAYERS,
        "wav?mels=48&frames=48",
        ADAM,
        limit=None,
        sequences=True,
        optimizer="adam",
        batch=128,
        steps=184,
    ),
)

_NAMED = {task.name: task for task in (*DEV, *FIRST_JUDGED, *TEST)}

# Their authors' rates are one for all weights where SGD trains Depth-muP and Adam trains CompleteP. Depth-muP's Adam
# rate falls as L^(-1/2) for hidden weights alone; the twins with it take that exponent for the one rate there is.
PEERS = (
    _twin(_NAMED["resnet-sgd-cifar10"], "depth-mup", f"{PARAMETRISED}:resnet?power=0.5"),
    _twin(_NAMED["resnet-adam-cifar10"], "depth-mup", f"{PARAMETRISED}:resnet?power=0.5"),
    _twin(_NAMED["vit-pre-adamw-cifar10"], "completep", f"{PARAMETRISED}:vit?power=1.0"),
    _twin(_NAMED["gpt-adamw-text"], "completep", f"{PARAMETRISED}:gpt?power=1.0"),
    _twin(_NAMED["resnet-sgd-images-cosine"], "depth-mup", f"{PARAMETRISED}:resnet?power=0.5&classes=100"),
    _twin(_NAMED["resnet-sgd-cifar100-epochs"], "depth-mup", f"{PARAMETRISED}:resnet?power=0.5&classes=100"),
    _twin(
        _NAMED["vit-pre-adamw-images-cosine"],
        "completep",
        f"{PARAMETRISED}:vit?power=1.0&size=64&patch=8&classes=100",
    ),
    _twin(_NAMED["gpt-adamw-text-cosine"], "completep", f"{PARAMETRISED}:gpt?power=1.0"),
    _twin(_NAMED["resnet-adamw-cifar100"], "depth-mup", f"{PARAMETRISED}:resnet?power=0.5&classes=100"),
    _twin(_NAMED["resnet-momentum-cifar100"], "depth-mup", f"{PARAMETRISED}:resnet?power=0.5&classes=100"),
    _twin(_NAMED["vit-pre-adam-cifar100"], "completep", f"{PARAMETRISED}:vit?power=1.0&classes=100"),
    _twin(_NAMED["gpt-adam-text"], "completep", f"{PARAMETRISED}:gpt?power=1.0"),
)

TASKS: tuple[Task, ...] = (*DEV, *FIRST_JUDGED, *TEST, *PEERS)
