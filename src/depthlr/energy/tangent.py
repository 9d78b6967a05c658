"""A forward-mode pass: the model's output and, beside it, the output's change to first order along a step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from depthlr.errors import DepthlrError, kind_and_message
from depthlr.trace.run import Arguments, cannot_run

DETACHING = (Tensor.detach, torch.detach, Tensor.data.__get__)  # type: ignore[attr-defined]


@contextlib.contextmanager
def moved(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    direction: Mapping[str, Tensor],
    arguments: Arguments,
    observer: contextlib.AbstractContextManager[Any] | None = None,
) -> Iterator[Any]:
    """The output whose tangents are d output / d theta . direction; they live as long as this context.

    An `observer` sees the model's own operations alone.
    """
    with forward_ad.dual_level(), torch.no_grad():
        duals = {n: p.detach() for n, p in parameters.items()}
        for name, change in direction.items():
            duals[name] = forward_ad.make_dual(duals[name], change)  # type: ignore[no-untyped-call]
        try:
            with _unsaved_checkpoints(), _Undetached(), observer or contextlib.nullcontext():
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
def _unsaved_checkpoints() -> Iterator[None]:
    """Without gradients a checkpoint saves nothing, but in older PyTorch does so by a function that has no tangent."""
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


class _Undetached(TorchFunctionMode):
    """A detached value has no gradient, but it changes with the weights all the same; so does one written by `out=`."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if args and func in DETACHING:
            return args[0].view_as(args[0])
        if isinstance(kwargs.get("out"), Tensor):  # written into, it would have no tangent, and is refused
            return kwargs["out"].copy_(func(*args, **{name: value for name, value in kwargs.items() if name != "out"}))
        return func(*args, **kwargs)


def value_and_change(value: Tensor) -> tuple[Tensor, Tensor]:
    """A dual tensor's parts; what no weight reaches does not change."""
    primal, tangent = forward_ad.unpack_dual(value)  # type: ignore[no-untyped-call]
    return primal, torch.zeros_like(primal) if tangent is None else tangent


def mean_product(a: Tensor, b: Tensor) -> Tensor:
    """The mean over coordinates and examples, as a double."""
    # Half precision overflows when squared; complex values count by their modulus.
    wide = [torch.view_as_real(t) if t.is_complex() else t for t in (a, b)]
    first, second = (t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in wide)
    return (first * second).mean().double()
