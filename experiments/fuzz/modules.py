"""Random modules for the API: a sentence or a result, and the module, its gradients and the generators untouched."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

import depthlr
from experiments.fuzz.readers import Misread, Reader, refused_in_a_sentence

BATCH = 4


@dataclass(frozen=True)
class Case:
    """A module by the seed it is made from, what is asked of it, and the shape of its input."""

    seed: int
    parts: tuple[str, ...]
    call: str
    input: str


class Odd(nn.Module):
    """A forward pass that does what real ones do, and worse."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.count = 0
        self.cache: dict[str, Any] = {}
        self.inner = nn.Linear(8, 8)
        self.seen: Tensor
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.count += 1
        self.seen = self.seen + 1
        self.cache[f"call {self.count}"] = x
        return ODD[self.how](self, x)


def _raise(model: Odd, x: Tensor) -> Tensor:
    raise KeyError("no luck")


def _exit(model: Odd, x: Tensor) -> Tensor:
    raise RuntimeError("\x1b[31mred\x1b[0m\nand\na second line")


def _write(model: Odd, x: Tensor) -> Tensor:
    with torch.no_grad():
        model.seen.add_(1)
    return x.clone().mul_(2).add_(model.inner(x))


def _branch(model: Odd, x: Tensor) -> Tensor:
    return model.inner(x) if float(x.detach().sum()) > 0 else x


ODD: dict[str, Callable[[Odd, Any], Any]] = {
    "residual": lambda model, x: x + model.inner(x),
    "twice": lambda model, x: model.inner(model.inner(x)),
    "gate": lambda model, x: x * torch.sigmoid(model.inner(x)),
    "attention": lambda model, x: F.softmax(x @ model.inner(x).transpose(-1, -2), -1) @ x if x.dim() > 1 else x,
    "dict": lambda model, x: {"logits": model.inner(x), "hidden": x},
    "tuple": lambda model, x: (x, model.inner(x)),
    "none": lambda model, x: None,
    "number": lambda model, x: 3.0,
    "integers": lambda model, x: model.inner(x).argmax(-1),
    "nan": lambda model, x: model.inner(x) * float("nan"),
    "scalar": lambda model, x: model.inner(x).sum(),
    "detached": lambda model, x: model.inner(x).detach(),
    "random": lambda model, x: model.inner(x) + torch.randn(8) * random.random() + np.random.rand(),  # noqa: NPY002
    "raises": _raise,
    "control": _exit,
    "writes": _write,
    "branches": _branch,
    "empty": lambda model, x: x[:0],
    "double": lambda model, x: model.inner(x).double(),
    "view": lambda model, x: model.inner(x).view(-1),
    "cat": lambda model, x: torch.cat([x, model.inner(x)], -1),
    "loop": lambda model, x: [x := model.inner(x) for _ in range(3)][-1],
}
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(8, 8),
    "narrow": lambda: nn.Linear(8, 1),
    "wide": lambda: nn.Linear(1, 8),
    "wrong": lambda: nn.Linear(7, 8),
    "no bias": lambda: nn.Linear(8, 8, bias=False),
    "bilinear": lambda: nn.Bilinear(8, 8, 8),
    "relu": nn.ReLU,
    "in place": lambda: nn.ReLU(inplace=True),
    "gelu": nn.GELU,
    "dropout": lambda: nn.Dropout(0.5),
    "norm": lambda: nn.LayerNorm(8),
    "batch norm": lambda: nn.BatchNorm1d(8),
    "embedding": lambda: nn.Embedding(16, 8),
    "convolution": lambda: nn.Conv2d(1, 2, 3, padding=1),
    "gru": lambda: nn.GRU(8, 8, batch_first=True),
    "attention layer": lambda: nn.MultiheadAttention(8, 2),
    "transformer": lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
    "flatten": nn.Flatten,
    "identity": nn.Identity,
    "lazy": lambda: nn.LazyLinear(8),
    "nothing": nn.Sequential,
    "spectral": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)),
    **{how: lambda how=how: Odd(how) for how in ODD},  # type: ignore[misc]
}
INPUTS: dict[str, Callable[[], Any]] = {
    "rows": lambda: torch.randn(BATCH, 8),
    "sequences": lambda: torch.randn(BATCH, 3, 8),
    "images": lambda: torch.randn(BATCH, 1, 8, 8),
    "integers": lambda: torch.randint(0, 16, (BATCH, 3)),
    "one number": lambda: torch.tensor(1.0),
    "no rows": lambda: torch.randn(0, 8),
    "nan": lambda: torch.full((BATCH, 8), float("nan")),
    "huge": lambda: torch.full((BATCH, 8), 3e38),
    "text": lambda: "text",
    "nothing": lambda: None,
    "mapping": lambda: {"x": torch.randn(BATCH, 8)},
}


def loss(output: Any, target: Any) -> Tensor:
    return output.float().square().mean() - 0.1 * output.float().mean()  # type: ignore[no-any-return]


CALLS: dict[str, Callable[[nn.Module, Any], object]] = {
    "effective_depth": lambda model, x: depthlr.effective_depth(model, x),
    "update_energy": lambda model, x: depthlr.update_energy(model, [(x, x)], loss),
    "update_energy, Adam": lambda model, x: depthlr.update_energy(model, [(x, x)], loss, "adam"),
    "persistent_energy": lambda model, x: depthlr.persistent_energy(model, [(x, x)] * 3, loss),
    "suggest_rate": lambda model, x: depthlr.suggest_rate(model, [(x, x)] * 3, loss, "adamw"),
    "transfer_rate": lambda model, x: depthlr.transfer_rate(0.1, model, model, x, rule="law"),
    "param_groups": lambda model, x: depthlr.param_groups(model, 0.1, weight_decay=0.1),
    "init_": lambda model, x: depthlr.init_(model, x, seed=0),
}


def made(case: Case) -> nn.Module:
    """The module of a case: a chain of its parts, some shared, frozen, or with gradients."""
    draw = random.Random(case.seed)
    torch.manual_seed(case.seed)
    parts = [LAYERS[part]() for part in case.parts]
    if len(parts) > 1 and draw.random() < 0.2:
        parts[-1] = parts[0]
    model = nn.Sequential(*parts)
    for parameter in model.parameters():
        if isinstance(parameter, nn.UninitializedParameter):
            continue
        if draw.random() < 0.1:
            parameter.requires_grad_(False)
        if draw.random() < 0.2:
            parameter.grad = torch.ones_like(parameter)
    return model.eval() if draw.random() < 0.3 else model


def state_of(model: nn.Module) -> dict[str, Any]:
    """All that must not change: weights, gradients, buffers, attributes, modes, hooks and generators."""
    found: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    found["numpy"] = np.random.get_state(legacy=False)["state"]["key"]  # noqa: NPY002
    found["mode"] = (torch.is_grad_enabled(), torch.get_default_dtype(), torch.is_inference_mode_enabled())
    for name, parameter in model.named_parameters():
        found[f"{name}: id"] = (id(parameter), parameter.requires_grad)
        if not isinstance(parameter, nn.UninitializedParameter):
            found[name] = parameter.detach().clone()
            found[f"{name}: gradient"] = None if parameter.grad is None else parameter.grad.clone()
    for name, buffer in model.named_buffers():
        found[f"{name}: buffer"] = buffer.clone()
    for name, module in model.named_modules():
        hooks = (len(module._forward_hooks), len(module._forward_pre_hooks), len(module._backward_hooks))
        found[f"{name}: module"] = (module.training, hooks, sorted(vars(module)))
        if isinstance(module, Odd):
            found[f"{name}: own"] = (module.count, sorted(module.cache))
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return (
            isinstance(other, Tensor) and one.shape == other.shape and torch.equal(one.nan_to_num(), other.nan_to_num())
        )
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def check_module(case: Case, folder: Path) -> None:
    """One call of the API on one module."""
    torch.manual_seed(case.seed)
    given = INPUTS[case.input]()
    model = made(case)
    before = state_of(model)
    refused = refused_in_a_sentence(lambda: CALLS[case.call](model, given))
    after = state_of(model)
    changed = [name for name in before if not same(before[name], after.get(name))] + sorted(set(after) - set(before))
    if case.call == "init_" and not refused:
        changed = [name for name in changed if name in ("mode",) or name.endswith((": module", ": own", ": buffer"))]
    if changed:
        raise Misread(f"{case.call} changed {', '.join(changed[:5])}")


def cases() -> st.SearchStrategy[Case]:
    parts = st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=4).map(tuple)
    usual = st.sampled_from(("rows", "rows", "sequences", "images", "integers"))
    inputs = st.one_of(usual, usual, st.sampled_from(sorted(INPUTS)))
    return st.builds(Case, st.integers(0, 2**32 - 1), parts, st.sampled_from(sorted(CALLS)), inputs)


MODULES = Reader("API with random modules", cases, check_module)
