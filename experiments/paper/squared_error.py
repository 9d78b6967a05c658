"""The loss of the paper's derivation, on classes: half the squared distance from the one-hot target, a logit each."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def squared_error(logits: Tensor, target: Tensor) -> Tensor:
    """1/(2M) |z - y|^2, the mean over examples (Lemma 2)."""
    wanted = F.one_hot(target, logits.shape[-1]).to(logits.dtype)
    return (logits - wanted).square().mean() / 2
