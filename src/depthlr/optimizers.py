"""The optimizers that have a name. Measurements, training and captured steps all make them here.

They are torch's own. Torch's fused SGD, Adam and AdamW can read their rate from the device, as a captured step must.
Its Muon cannot, so a captured step uses `CapturedMuon`; tests compare it with torch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.law.rules import OPTIMIZER_FAMILIES

OPTIMIZERS = tuple(OPTIMIZER_FAMILIES)
MUON_MOMENTUM, POLYNOMIAL, ITERATIONS = 0.95, (3.4445, -4.775, 2.0315), 5
LIKE_ADAMW = "match_rms_adamw"  # Muon's update times 0.2 sqrt(larger side), which is the size of AdamW's


def named_optimizers(name: str, model: nn.Module) -> list[Optimizer]:
    """The optimizers of that name with torch's default options and a rate of 1e-3.

    Args:
        name: One of `OPTIMIZERS`.
        model: The model whose parameters are stepped.
    """
    check_optimizer("the optimizer", name)
    momentum = 0.9 if name == "momentum" else None
    return make_optimizers(name, model, 1e-3, weight_decay=0.01 if name == "adamw" else 0.0, momentum=momentum)


def check_optimizer(entry: str, name: object) -> None:
    """Raise if there is no optimizer of that name, or none in this version of torch.

    Args:
        entry: What the error calls the name.
        name: The name.
    """
    check.one_of(entry, name, OPTIMIZERS)
    if name == "muon" and not hasattr(torch.optim, "Muon"):
        raise DepthlrError("Muon needs PyTorch 2.9 or newer: install it, or choose another optimizer.")


def make_optimizers(
    name: str,
    model: nn.Module,
    rate: float | Tensor,
    *,
    weight_decay: float = 0.0,
    momentum: float | None = None,
    betas: tuple[float, float] | None = None,
    eps: float | None = None,
    decay: str | None = None,
    muon: str | None = None,
    captured: bool = False,
) -> list[Optimizer]:
    """The optimizers of a training. Muon takes the matrices and leaves the rest to AdamW.

    Args:
        name: One of `OPTIMIZERS`.
        model: The model whose trainable parameters are stepped.
        rate: The rate of every group: a number, or a tensor that a captured step reads anew at every replay.
        weight_decay: As in torch.
        momentum: Of SGD.
        betas: Of Adam and AdamW. None takes torch's.
        eps: Of Adam and AdamW. None takes torch's.
        decay: "weights" leaves norms, biases and embeddings out of the weight decay.
        muon: "hidden" gives embeddings and head to AdamW, and scales Muon's update to the size of AdamW's.
        captured: Use implementations whose step can be captured in a CUDA graph.
    """
    parameters = [p for p in model.parameters() if p.requires_grad] or list(model.parameters())
    decayed = decayed_parameters(model) if decay == "weights" else set(map(id, parameters))

    def groups(members: Sequence[nn.Parameter]) -> list[dict[str, Any]]:
        weights = [p for p in members if id(p) in decayed]
        others = [p for p in members if id(p) not in decayed]
        found = ((weights, weight_decay), (others, 0.0))
        return [{"params": params, "weight_decay": factor} for params, factor in found if params]

    options: dict[str, Any] = {"lr": rate}
    if captured:
        options["fused"] = True
    if name in {"sgd", "momentum"}:
        return [SGD(groups(parameters), momentum=momentum or 0.0, **options)]
    given = {"betas": betas, "eps": eps, "capturable": isinstance(rate, Tensor) and rate.is_cuda}
    options |= {option: value for option, value in given.items() if value}  # capturable: the device counts the steps
    if name != "muon":
        kind = Adam if name == "adam" else AdamW
        return [kind(groups(parameters), **options)]
    outer = outer_parameters(model) if muon == "hidden" else set()
    matrices = [p for p in parameters if p.dim() == 2 and id(p) not in outer]
    rest = [p for p in parameters if p.dim() != 2 or id(p) in outer]
    scale = LIKE_ADAMW if muon == "hidden" else "original"
    made: list[Optimizer] = []
    if matrices and captured:
        made.append(CapturedMuon(groups(matrices), rate, scale))
    elif matrices:
        made.append(torch.optim.Muon(groups(matrices), lr=rate, adjust_lr_fn=scale))  # type: ignore[arg-type]
    if rest:
        made.append(AdamW(groups(rest), **options))
    return made


def decayed_parameters(model: nn.Module) -> set[int]:
    """The ids of weights that shrink where norms, biases and embeddings are left out.

    Args:
        model: The model.
    """
    return {id(p) for p in model.parameters() if p.dim() >= 2} - _embeddings(model)


def outer_parameters(model: nn.Module) -> set[int]:
    """The ids of embeddings' and the head's weights: the head is the last linear layer that the model defines.

    Args:
        model: The model.
    """
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return _embeddings(model) | {id(module.weight) for module in linear[-1:]}


def _embeddings(model: nn.Module) -> set[int]:
    return {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}


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
    """Set moments and step counts to zero, in place: the state before the first step.

    Args:
        optimizers: The optimizers.
    """
    for optimizer in optimizers:
        for slots in optimizer.state.values():
            for value in slots.values():
                if isinstance(value, Tensor):
                    value.zero_()
