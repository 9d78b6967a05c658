"""The model inside wrappers: torch.compile, DataParallel, DDP and FSDP."""

from __future__ import annotations

from torch import nn

# Names that wrappers put into module paths; users never wrote them.
WRAPPER_NAMES = ("_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")


def unwrap(model: nn.Module) -> nn.Module:
    """The user's own module below any stack of wrappers. FSDP keeps its wrapper: it gathers the sharded weights."""
    inner = getattr(model, "_orig_mod", None)  # torch.compile's OptimizedModule
    if type(model).__name__ in {"DistributedDataParallel", "DataParallel"}:
        inner = model.module
    return unwrap(inner) if isinstance(inner, nn.Module) else model


def is_sharded(model: nn.Module) -> bool:
    """Are some weights held in pieces on several ranks (FSDP1 modules, or FSDP2's DTensor parameters)?"""
    return any(type(m).__name__ == "FullyShardedDataParallel" for m in model.modules()) or any(
        type(p).__name__ == "DTensor" or type(p.data).__name__ == "DTensor" for p in model.parameters()
    )


def clean_path(path: str) -> str:
    """A module or parameter path without the wrappers' names."""
    return ".".join(part for part in path.split(".") if part not in WRAPPER_NAMES)
