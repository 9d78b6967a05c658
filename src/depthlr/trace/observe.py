"""Watching a model run once more: what chosen operations of a recorded run give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.nn.functional import linear, multi_head_attention_forward
from torch.overrides import TorchFunctionMode

from depthlr.trace import operations as ops
from depthlr.trace.record import tensors_in

Moment = tuple[int, str]
"""A call's number in a run, and the operation's name."""


class CallObserver(TorchFunctionMode):
    """Calls `observe(moment, result)` at chosen torch functions of a run that a Recorder has seen before."""

    def __init__(self, wanted: Collection[Moment], observe: Callable[[Moment, Tensor], None]) -> None:
        super().__init__()
        self.call_counts: Counter[str] = Counter()  # how often each operation was called
        self._wanted = wanted
        self._observe = observe

    def __enter__(self) -> CallObserver:
        self._apply_jvp = BackwardCFunction.apply_jvp

        def unseen(*given: Any) -> Any:
            """A custom function's tangent: no operation of the run."""
            with torch._C.DisableTorchFunction():
                return self._apply_jvp(*given)  # type: ignore[no-untyped-call]

        BackwardCFunction.apply_jvp = unseen  # type: ignore[method-assign]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        BackwardCFunction.apply_jvp = self._apply_jvp  # type: ignore[method-assign]

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = ops.operation_name(func, kwargs)
        self.call_counts[name] += 1
        call = self.call_counts[name]  # the function may call others
        if (call, ops.IN_PROJECTION) in self._wanted and func is multi_head_attention_forward:
            self._observe((call, ops.IN_PROJECTION), _in_projection(*args, **kwargs))
        result = func(*args, **kwargs)
        moment = call, name
        if moment in self._wanted:
            # At once, since an activation may overwrite the tensor in place right after.
            self._observe(moment, next(tensors_in(result)))
        return result


def _in_projection(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    weight: Tensor | None,
    bias: Tensor | None,
    *rest: Any,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    **others: Any,
) -> Tensor:
    """Queries, keys and values of attention that hides them, as one vector: their lengths may differ."""
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if weight is None else weight.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    parts = zip((query, key, value), weights, biases, strict=True)
    return torch.cat([linear(x, w, b).flatten() for x, w, b in parts if w is not None])
