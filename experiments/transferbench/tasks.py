"""The frozen list of tasks, whose best rates are swept.

`dev` are the ten settings on which rules were and are designed: six on CIFAR-10 as they were first measured (12,800
images, batch 128, 100 steps), and four of 200 steps at batch 64, of which only the kind was fixed: pre-LN ViT and GPT
with AdamW, a BatchNorm ResNet with momentum, a tanh MLP with SGD; widths and sizes are chosen here. `first` are the
tasks on which the first rule was evaluated, once. Since then rules are designed on them too. `test` tasks share no
(family, optimizer, data, schedule) with either, and are evaluated once, after a rule is chosen. `peers` are twins of
residual tasks in the parametrisation that Depth-muP or CompleteP prescribes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from depthlr.data.examples import Examples
from depthlr.data.sources import parse_name
from depthlr.models.build import build
from depthlr.study.description import Data, Models, Search, Study
from depthlr.trace.depth import Depth, effective_depth
from depthlr.training.training import Training
from experiments.examples import load_examples

Split = Literal["dev", "first", "test", "peers"]


@dataclass(frozen=True)
class Task:
    """A model family at several sizes, an optimizer, data and a schedule.

    `study` is the sweep over all sizes. A task of the split `peers` is the `twin` of another, as a peer wants it.
    """

    name: str
    split: Split
    family: str
    study: Study
    paper_width: bool = False
    sequences: bool = False  # spectrograms are read as sequences, one channel a mel band
    twin: str | None = None  # the task whose model this is in a peer's parametrisation
    rule: str | None = None  # that peer's rule

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What makes it another task than the next: family, optimizer, data, schedule."""
        data, _ = parse_name(self.study.data.name)
        return self.family, self.study.training.optimizer, data, self.study.training.schedule

    def at(self, precision: str) -> Study:
        """The sweep in a precision."""
        return replace(self.study, training=replace(self.study.training, precision=precision))

    def examples(self, data: Path) -> Examples:
        """Its data, `data` being the folder that holds every set."""
        return load_examples(self.study.data.name, data, sequences=self.sequences)

    def depths(self, examples: Examples) -> dict[int, Depth]:
        """The effective depth at each size, counted without allocating a model."""
        model = self.study.model
        return {
            size: effective_depth(*build(model.spec_at(size), input=examples.input, meta=True)) for size in model.sizes
        }


class Model(NamedTuple):
    """What is built. The paper trains models of the same width, or does not."""

    spec: str
    vary: str
    sizes: tuple[int, ...]
    paper_width: bool = False


LAYERS = (3, 6, 12, 24)
BLOCKS = (2, 4, 8, 16)
SCALES = (1, 2, 4, 8)  # of models that grow wider and deeper together
VIT = "vit?width=384&heads=6&patch=4"
FAMILIES = {
    "cnn": Model("cnn?width=64", "layers", LAYERS, paper_width=True),
    "resnet": Model("resnet?width=64", "blocks", LAYERS, paper_width=True),
    "resnet-bn": Model("resnet?width=64&batch_norm=true", "blocks", LAYERS, paper_width=True),
    "vit-post": Model(VIT, "blocks", BLOCKS, paper_width=True),
    "vit-pre": Model(f"{VIT}&norm=pre", "blocks", BLOCKS),
    "beit": Model("beit?width=384&heads=6&patch=4", "blocks", BLOCKS, paper_width=True),
    "cct": Model("cct?width=384&heads=6&tokenizer_layers=2", "blocks", BLOCKS, paper_width=True),
    "gpt": Model("gpt?width=128&heads=4", "blocks", BLOCKS),
    "mlp": Model("mlp?width=256", "layers", LAYERS),
    "cnn1d": Model("cnn1d?width=96", "layers", LAYERS),
}
CIFAR10, CIFAR100, TINY, TEXT, WAV = (
    "cifar10",
    "cifar100",
    "images?size=64",
    "text?context=128",
    "wav?mels=48&frames=48",
)
# 80 rates over five decades: 16 a decade.
SGD = Search(low=1e-4, high=10.0)
SMALL = Search(low=1e-5, high=1.0)
ADAM = Search(low=1e-6, high=0.1)
ADAMW: dict[str, Any] = {"optimizer": "adamw", "weight_decay": 0.1}
SHORT: dict[str, Any] = {"batch": 128, "steps": 100}
LONGER: dict[str, Any] = {"batch": 64, "steps": 200}
COSINE: dict[str, Any] = {"schedule": "warmup-cosine"}


def _task(
    split: Split,
    family: str,
    data: str,
    search: Search,
    *,
    model: Model | None = None,
    sizes: tuple[int, ...] | None = None,
    tag: str = "",
    **training: Any,
) -> Task:
    """A task of a family, whose model or sizes may be others than the family's."""
    given = model or FAMILIES[family]
    spec = given.spec + ("&classes=100" if model is None and data in (CIFAR100, TINY) else "")
    budget = Training(**training)
    cosine = "" if budget.schedule == "constant" else "cosine"
    name = "-".join(word for word in (family, budget.optimizer, data.partition("?")[0], cosine, tag) if word)
    # 100 batches of 128. The images of a folder come class by class, so a limit would keep half of the classes.
    limit = 12_800 if data in (CIFAR10, CIFAR100) else None
    study = Study(name, Models(spec, given.vary, sizes or given.sizes), budget, Data(data, limit=limit), search)
    return Task(name, split, family, study, given.paper_width, sequences=data == WAV)


SCALED = "experiments.transferbench.scaled"
DEV = (
    _task("dev", "resnet", CIFAR10, SGD, sizes=(3, 4, 6, 8, 12, 16, 24, 30), **SHORT),
    _task("dev", "cnn", CIFAR10, SGD, sizes=(3, 4, 6, 8, 12, 16), **SHORT),
    _task("dev", "vit-post", CIFAR10, SMALL, sizes=(2, 4, 6, 8, 12, 16), **SHORT),
    _task("dev", "resnet", CIFAR10, ADAM, optimizer="adam", **SHORT),
    _task("dev", "cnn", CIFAR10, ADAM, optimizer="adam", **SHORT),
    _task("dev", "vit-post", CIFAR10, ADAM, optimizer="adam", **SHORT),
    _task("dev", "vit-pre", CIFAR10, ADAM, **ADAMW, **LONGER),
    _task("dev", "gpt", TEXT, SMALL, **ADAMW, **LONGER),
    _task("dev", "resnet-bn", CIFAR10, SGD, optimizer="momentum", **LONGER),
    _task("dev", "mlp", CIFAR10, SGD, model=Model("mlp?width=256&activation=tanh", "layers", LAYERS), **LONGER),
)
FIRST_JUDGED = (
    _task("first", "cnn", CIFAR100, SMALL, optimizer="momentum", **SHORT),
    _task("first", "resnet", TINY, SGD, batch=64, steps=150, **COSINE),
    _task("first", "resnet", CIFAR100, SGD, tag="epochs", batch=128, epochs=3, metric="last_epoch"),
    _task(
        "first",
        "resnet-bn",
        CIFAR100,
        SMALL,
        model=Model("resnet?width=64&classes=100&batch_norm=true", "blocks", LAYERS, paper_width=True),
        **ADAMW,
        **COSINE,
        **SHORT,
    ),
    _task("first", "mlp", CIFAR100, ADAM, optimizer="adam", **LONGER),
    _task("first", "vit-post", CIFAR100, SMALL, optimizer="momentum", **COSINE, **SHORT),
    _task("first", "vit-pre", CIFAR100, SMALL, optimizer="muon", **SHORT),
    _task(
        "first",
        "vit-pre",
        TINY,
        ADAM,
        model=Model("vit?width=384&heads=6&patch=8&norm=pre&classes=100", "blocks", BLOCKS),
        **ADAMW,
        **COSINE,
        **SHORT,
    ),
    _task("first", "beit", CIFAR10, ADAM, **ADAMW, **COSINE, **SHORT),
    _task("first", "cct", CIFAR10, ADAM, optimizer="adam", **SHORT),
    _task("first", "cnn1d", WAV, SGD, batch=128, steps=184),  # eight epochs: one has 23 steps
    _task("first", "gpt", TEXT, SMALL, **ADAMW, **COSINE, **LONGER),
    _task(
        "first",
        "resnet",
        CIFAR10,
        SMALL,
        model=Model(f"{SCALED}:resnet", "scale", SCALES),
        tag="scaled",
        optimizer="momentum",
        **SHORT,
    ),
    _task(
        "first",
        "gpt",
        TEXT,
        ADAM,
        model=Model(f"{SCALED}:gpt", "scale", SCALES),
        tag="scaled",
        optimizer="adam",
        batch=64,
        steps=150,
        **COSINE,
    ),
)
TEST = (
    _task("test", "cnn", CIFAR100, SGD, **SHORT),
    _task("test", "resnet", CIFAR100, ADAM, **ADAMW, **SHORT),
    _task("test", "resnet", CIFAR100, SMALL, optimizer="momentum", **SHORT),
    _task("test", "vit-pre", CIFAR100, ADAM, optimizer="adam", **SHORT),
    _task("test", "vit-post", CIFAR100, ADAM, **ADAMW, **COSINE, **SHORT),
    _task("test", "cct", CIFAR10, SMALL, optimizer="momentum", **SHORT),
    _task("test", "gpt", TEXT, SMALL, optimizer="adam", **LONGER),
    _task(
        "test",
        "mlp",
        CIFAR10,
        SMALL,
        model=Model("mlp?width=256&activation=gelu", "layers", LAYERS),
        optimizer="momentum",
        **COSINE,
        **LONGER,
    ),
    _task("test", "cnn1d", WAV, ADAM, optimizer="adam", batch=128, steps=184),
)
_NAMED = {task.name: task for task in (*DEV, *FIRST_JUDGED, *TEST)}


def _twin(name: str, rule: str, spec: str) -> Task:
    """The same task, its model in a peer's parametrisation."""
    task, own = _NAMED[name], f"{name}-{rule}"
    vary, sizes = task.study.model.vary, task.study.model.sizes
    # The multiplier in the forward pass takes the place of K^(-1/2) at initialization.
    training = replace(task.study.training, branch_scale="none")
    model = Models(f"experiments.transferbench.parametrised:{spec}", vary, sizes)
    study = replace(task.study, name=own, model=model, training=training)
    return replace(task, name=own, split="peers", study=study, twin=name, rule=rule)


# Their authors' rates are one for all weights where SGD trains Depth-muP and Adam trains CompleteP. Depth-muP's Adam
# rate falls as L^(-1/2) for hidden weights alone; the twins with it take that exponent for the one rate there is.
PEERS = (
    _twin("resnet-sgd-cifar10", "depth-mup", "resnet?power=0.5"),
    _twin("resnet-adam-cifar10", "depth-mup", "resnet?power=0.5"),
    _twin("vit-pre-adamw-cifar10", "completep", "vit?power=1.0"),
    _twin("gpt-adamw-text", "completep", "gpt?power=1.0"),
    _twin("resnet-sgd-images-cosine", "depth-mup", "resnet?power=0.5&classes=100"),
    _twin("resnet-sgd-cifar100-epochs", "depth-mup", "resnet?power=0.5&classes=100"),
    _twin("vit-pre-adamw-images-cosine", "completep", "vit?power=1.0&size=64&patch=8&classes=100"),
    _twin("gpt-adamw-text-cosine", "completep", "gpt?power=1.0"),
    _twin("resnet-adamw-cifar100", "depth-mup", "resnet?power=0.5&classes=100"),
    _twin("resnet-momentum-cifar100", "depth-mup", "resnet?power=0.5&classes=100"),
    _twin("vit-pre-adam-cifar100", "completep", "vit?power=1.0&classes=100"),
    _twin("gpt-adam-text", "completep", "gpt?power=1.0"),
)

TASKS: tuple[Task, ...] = (*DEV, *FIRST_JUDGED, *TEST, *PEERS)
