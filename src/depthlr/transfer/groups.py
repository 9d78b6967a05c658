"""Parameter groups with absolute rates, for any torch optimizer."""

from __future__ import annotations

from typing import Any

from torch import nn

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.trace.run import check_runnable, unwrap

MAGNITUDES = ("weight_g", "original0")  # as weight norm calls a weight's length, old and new
# Words in the names of parameters that modules hold themselves: positions, class tokens, tables of biases.
TOKEN_WORDS = {
    *("pos", "position", "positional", "positions", "token", "tokens"),
    *("embed", "embedding", "embeddings", "bias", "biases", "table"),
}


def param_groups(
    model: nn.Module,
    rate: float,
    *,
    weight_decay: float = 0.0,
    tuned_rate: float | None = None,
    muon: bool = False,
    other_rate: float | None = None,
) -> list[dict[str, Any]]:
    """Parameter groups with absolute `lr`, for any torch optimizer: weights, which decay, and the rest, which does not.

    All groups get one rate, because the law scales no layer differently. The rest are biases, norms, embeddings and
    positions. Groups are plain data, so schedulers and checkpoints keep them.

    Args:
        model: Its trainable parameters are grouped.
        rate: The rate of every group, or with `muon` of the 2-D weights.
        weight_decay: Of the weights.
        muon: Put 2-D weights first, in a group marked `use_muon`. Embeddings are not among them; the head is.
        other_rate: With `muon`, the rate of everything else, which is for AdamW.
    """
    check_runnable(unwrap(model))
    if any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()):
        raise DepthlrError("FSDP1 flattens weights, so they cannot be told from biases: use fully_shard (FSDP2).")
    main = check.positive("The rate", rate)
    decay = check.finite("The weight decay", weight_decay, least=0)
    if tuned_rate is not None:
        decay *= check.positive("The tuned rate", tuned_rate) / main
    if muon and other_rate is None:
        raise DepthlrError("muon=True needs other_rate=, the rate of what Muon does not take and AdamW does.")
    if not muon and other_rate is not None:
        raise DepthlrError("other_rate= is for muon=True: without it one rate serves every parameter.")
    other = main if other_rate is None else check.positive("The other rate", other_rate)

    trainable = [p for p in model.parameters() if p.requires_grad]  # a tied parameter comes once
    if not trainable:
        raise DepthlrError("every parameter is frozen, so there is nothing to give a rate to.")
    exempt = _exempt(model)
    weights = [p for p in trainable if id(p) not in exempt]
    rest = [p for p in trainable if id(p) in exempt]
    if not muon:
        return _filled(_group(weights, main, decay), _group(rest, main, 0.0))
    matrices, others = [p for p in weights if p.dim() == 2], [p for p in weights if p.dim() != 2]
    return _filled(
        {**_group(matrices, main, decay), "use_muon": True},
        {**_group(others, other, decay), "use_muon": False},
        {**_group(rest, other, 0.0), "use_muon": False},
    )


def _group(parameters: list[nn.Parameter], rate: float, decay: float) -> dict[str, Any]:
    return {"params": parameters, "lr": rate, "weight_decay": decay}


def _filled(*groups: dict[str, Any]) -> list[dict[str, Any]]:
    return [group for group in groups if group["params"]]


def _exempt(model: nn.Module) -> set[int]:
    """Parameters that do not decay, by id; one that several modules share is exempt if it is so in any of them."""
    found = set()
    for module in model.modules():
        kind = type(module).__name__
        whole = "Norm" in kind or "Embedding" in kind  # by name, so that a library's own norms count too
        for name, parameter in module.named_parameters(recurse=False):
            magnitude = name in MAGNITUDES and max(parameter.shape, default=1) == parameter.numel()
            if whole or magnitude or parameter.dim() <= 1 or TOKEN_WORDS.intersection(name.lower().split("_")):
                found.add(id(parameter))
    return found
