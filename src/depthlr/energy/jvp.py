"""A forward-mode pass: the model's output, and the Jacobian-vector product (JVP) of the output along a step.

A `CallObserver` sees chosen operations of this pass, whose results carry tangents as well.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.function import BackwardCFunction
from torch.func import functional_call
from torch.nn.functional import linear, multi_head_attention_forward
from torch.overrides import TorchFunctionMode

from depthlr.errors import DepthlrError, kind_and_message
from depthlr.trace import operations as ops
from depthlr.trace.run import Arguments, cannot_run, tensors_in

DETACHING = (Tensor.detach, torch.detach, Tensor.data.__get__)  # type: ignore[attr-defined]


@contextlib.contextmanager
def jvp(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    direction: Mapping[str, Tensor],
    arguments: Arguments,
    observer: contextlib.AbstractContextManager[Any] | None = None,
) -> Iterator[Any]:
    """Run the model on dual tensors: the tangents of the output are d output / d theta . direction.

    The tangents exist only inside this context.

    Args:
        model: The model to run.
        parameters: Its parameters by name.
        direction: The change of each parameter. Parameters without an entry do not change.
        arguments: Positional and named arguments of the model.
        observer: A context that is active while the model runs. It sees only the model's own operations.
    """
    with forward_ad.dual_level(), torch.no_grad():
        duals = {n: p.detach() for n, p in parameters.items()}
        for name, change in direction.items():
            duals[name] = forward_ad.make_dual(duals[name], change)  # type: ignore[no-untyped-call]
        try:
            with _plain_checkpoints(), _KeepTangents(), observer or contextlib.nullcontext():
                output = functional_call(model, duals, *arguments)
        except NotImplementedError as error:
            raise DepthlrError(
                f"an operation of the model has no forward-mode derivative in this PyTorch ({kind_and_message(error)})."
            ) from error
        except DepthlrError:
            raise
        except Exception as error:
            raise cannot_run(error) from error
        yield output


@contextlib.contextmanager
def _plain_checkpoints() -> Iterator[None]:
    """Replace a function in checkpoints of older PyTorch that has no tangent. It is not needed without gradients."""
    checkpoints: Any = torch.utils.checkpoint
    saver = getattr(checkpoints, "_NoopSaveInputs", None)
    if saver is None:
        yield
        return
    checkpoints._NoopSaveInputs = SimpleNamespace(apply=lambda *inputs: torch.empty(0))
    try:
        yield
    finally:
        checkpoints._NoopSaveInputs = saver


class _KeepTangents(TorchFunctionMode):
    """Keep the tangents of detached values and of values written by `out=`: they change with the weights too."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if args and func in DETACHING:
            return args[0].view_as(args[0])
        if isinstance(kwargs.get("out"), Tensor):  # PyTorch refuses to write a dual tensor into `out=`
            return kwargs["out"].copy_(func(*args, **{name: value for name, value in kwargs.items() if name != "out"}))
        return func(*args, **kwargs)


def value_and_change(value: Tensor) -> tuple[Tensor, Tensor]:
    """Primal and tangent of a dual tensor. The tangent is zero if no weight influences the value."""
    primal, tangent = forward_ad.unpack_dual(value)  # type: ignore[no-untyped-call]
    return primal, torch.zeros_like(primal) if tangent is None else tangent


def mean_product(a: Tensor, b: Tensor) -> Tensor:
    """The mean of a * b over coordinates and examples, in float64."""
    # Squares overflow in half precision. Real and imaginary parts of complex values are separate coordinates.
    wide = [torch.view_as_real(t) if t.is_complex() else t for t in (a, b)]
    first, second = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in wide)
    return (first * second).mean().double()


Moment = tuple[int, str]
"""The n-th call of an operation in a run: n, and the name of the operation."""


class CallObserver(TorchFunctionMode):
    """Calls `observe(moment, result)` at chosen torch functions of a run that a Recorder has recorded before."""

    def __init__(self, moments: Collection[Moment], observe: Callable[[Moment, Tensor], None]) -> None:
        super().__init__()
        self.call_counts: Counter[str] = Counter()  # how often each operation was called
        self._moments = moments
        self._observe = observe

    def __enter__(self) -> CallObserver:
        self._apply_jvp = BackwardCFunction.apply_jvp

        def unseen(*given: Any) -> Any:
            """The tangent of a custom autograd function is not an operation of the run."""
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
        if (call, ops.IN_PROJECTION) in self._moments and func is multi_head_attention_forward:
            self._observe((call, ops.IN_PROJECTION), _in_projection(*args, **kwargs))
        result = func(*args, **kwargs)
        moment = call, name
        if moment in self._moments:
            # Immediately, since an activation may overwrite the tensor in place.
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
    """The queries, keys and values inside `multi_head_attention_forward`, as one vector: their lengths may differ."""
    weights = (q_proj_weight, k_proj_weight, v_proj_weight) if weight is None else weight.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    parts = zip((query, key, value), weights, biases, strict=True)
    return torch.cat([linear(x, w, b).flatten() for x, w, b in parts if w is not None])
