"""The optimizers that have a name. Measurements, training and captured steps all make them here.

They are torch's own. Torch's fused SGD, Adam and AdamW can read their rate from the device, as a captured step must.
Its Muon cannot, so a captured step uses `CapturedMuon`; tests compare it with torch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.law.rules import OPTIMIZER_FAMILIES

OPTIMIZERS = tuple(OPTIMIZER_FAMILIES)
MUON_MOMENTUM, POLYNOMIAL, ITERATIONS = 0.95, (3.4445, -4.775, 2.0315), 5
LIKE_ADAMW = "match_rms_adamw"  # Muon's update times 0.2 sqrt(larger side), which is the size of AdamW's


class OptimizerOptions(Protocol):
    """The entries of a training that decide its optimizer."""

    @property
    def optimizer(self) -> str: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def momentum(self) -> float | None: ...
    @property
    def betas(self) -> tuple[float, float] | None: ...
    @property
    def eps(self) -> float | None: ...
    @property
    def decay(self) -> str | None: ...
    @property
    def muon(self) -> str | None: ...


@dataclass(frozen=True)
class DefaultOptions:
    """The options of a named optimizer that a user does not train with, only measures: torch's defaults."""

    optimizer: str
    betas: None = None
    eps: None = None
    decay: None = None
    muon: None = None

    @property
    def momentum(self) -> float | None:
        return 0.9 if self.optimizer == "momentum" else None

    @property
    def weight_decay(self) -> float:
        return 0.01 if self.optimizer == "adamw" else 0.0


def named_optimizers(name: str, model: nn.Module, rate: float = 1e-3) -> list[Optimizer]:
    """The optimizers of that name with torch's default options.

    Args:
        name: One of `OPTIMIZERS`.
        model: The model whose parameters are stepped.
        rate: The rate of every group.
    """
    check_optimizer("the optimizer", name)
    return make_optimizers(DefaultOptions(name), model, rate)


def check_optimizer(entry: str, name: object) -> None:
    """Raise if there is no optimizer of that name, or none in this version of torch."""
    check.one_of(entry, name, OPTIMIZERS)
    if name == "muon" and not hasattr(torch.optim, "Muon"):
        raise DepthlrError("Muon needs PyTorch 2.9 or newer: install it, or choose another optimizer.")


def make_optimizers(
    training: OptimizerOptions, model: nn.Module, rate: float | Tensor, *, captured: bool = False
) -> list[Optimizer]:
    """The optimizers of a training. Muon takes the matrices and leaves the rest to AdamW.

    Args:
        training: The name of the optimizer, and its options.
        model: The model whose trainable parameters are stepped.
        rate: The rate of every group: a number, or a tensor that a captured step reads anew at every replay.
        captured: Use implementations whose step can be captured in a CUDA graph.
    """
    parameters = [p for p in model.parameters() if p.requires_grad] or list(model.parameters())
    decayed = decayed_parameters(model) if training.decay == "weights" else {id(p) for p in parameters}

    def groups(members: Sequence[nn.Parameter]) -> list[dict[str, Any]]:
        shrinking = [p for p in members if id(p) in decayed]
        others = [p for p in members if id(p) not in decayed]
        found = ((shrinking, training.weight_decay), (others, 0.0))
        return [{"params": some, "weight_decay": decay} for some, decay in found if some]

    options: dict[str, Any] = {"lr": rate, **({"fused": True} if captured else {})}
    if training.optimizer in {"sgd", "momentum"}:
        return [SGD(groups(parameters), momentum=training.momentum or 0.0, **options)]
    given = {"betas": training.betas, "eps": training.eps, "capturable": isinstance(rate, Tensor) and rate.is_cuda}
    options |= {name: value for name, value in given.items() if value}  # capturable: steps are counted on the device
    if training.optimizer != "muon":
        kind = Adam if training.optimizer == "adam" else AdamW
        return [kind(groups(parameters), **options)]
    outer = outer_parameters(model) if training.muon == "hidden" else set()
    matrices = [p for p in parameters if p.dim() == 2 and id(p) not in outer]
    rest = [p for p in parameters if p.dim() != 2 or id(p) in outer]
    scale = LIKE_ADAMW if training.muon == "hidden" else "original"
    made: list[Optimizer] = []
    if matrices and captured:
        made.append(CapturedMuon(groups(matrices), rate, scale))
    elif matrices:
        made.append(torch.optim.Muon(groups(matrices), lr=rate, adjust_lr_fn=scale))  # type: ignore[arg-type]
    if rest:
        made.append(AdamW(groups(rest), **options))
    return made


def decayed_parameters(model: nn.Module) -> set[int]:
    """The ids of weights that shrink where norms, biases and embeddings are left out."""
    embedded = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    return {id(p) for p in model.parameters() if p.dim() >= 2} - embedded


def outer_parameters(model: nn.Module) -> set[int]:
    """The ids of embeddings' and the head's weights: the head is the last linear layer that the model defines."""
    embedded = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return embedded | {id(module.weight) for module in linear[-1:]}


class CapturedMuon(Optimizer):
    """Muon on matrices: momentum, orthogonalised by five Newton-Schulz steps in bf16."""

    def __init__(self, groups: Sequence[Any], lr: float | Tensor, scale: str = "original") -> None:
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0})
        self._scale = scale

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            moving = [p for p in group["params"] if p.grad is not None]
            alike: dict[torch.Size, list[nn.Parameter]] = {}
            for parameter in moving:
                alike.setdefault(parameter.shape, []).append(parameter)
            for parameters in alike.values():
                self._step_alike(parameters, group["lr"], group["weight_decay"])

    def _step_alike(self, parameters: list[nn.Parameter], rate: Tensor, decay: float) -> None:
        """Matrices of one shape, orthogonalised together: a deep model has many, and each alone is small."""
        updates = []
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["momentum"] = torch.zeros_like(parameter)
            assert parameter.grad is not None
            state["momentum"].lerp_(parameter.grad, 1 - MUON_MOMENTUM)
            updates.append(parameter.grad.lerp(state["momentum"], MUON_MOMENTUM))
        rows, columns = parameters[0].shape
        factor = max(1.0, rows / columns) ** 0.5
        if self._scale == LIKE_ADAMW:
            factor = 0.2 * max(rows, columns) ** 0.5
        for parameter, update in zip(parameters, _orthogonalize(torch.stack(updates)), strict=True):
            parameter.mul_(1 - rate * decay)
            parameter.sub_(update * (rate * factor))


def _orthogonalize(matrices: Tensor) -> Tensor:  # (count, rows, columns)
    """The nearest matrices with all singular values near 1, by a quintic iteration on the wide side."""
    a, b, c = POLYNOMIAL
    x = matrices.bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def reset_state(optimizers: Sequence[Optimizer]) -> None:
    """Set moments and step counts to zero, in place: the state before the first step."""
    for optimizer in optimizers:
        for slots in optimizer.state.values():
            for value in slots.values():
                if isinstance(value, Tensor):
                    value.zero_()
