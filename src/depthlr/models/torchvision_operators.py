"""torchvision, which timm and transformers import where it is installed, though its wheel may be for another torch.

Then its compiled operators do not load, and importing it fails for want of two that no model here calls. Declared
without an implementation, they let the rest be imported.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import torch

_declared: list[torch.library.Library] = []  # operators vanish with their library, so it is kept


def import_torchvision() -> None:
    """Import it if it is there, with or without its compiled operators."""
    if find_spec("torchvision") is None:
        return
    try:
        import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error) or _declared:
            raise
        library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
        _declared.append(library)
        import_module("torchvision")
