"""A forward-mode pass: the model's output, and the Jacobian-vector product (JVP) of the output along a step.

A `Watch` sees chosen values of this pass, which carry tangents as well. Where PyTorch has no
forward-mode derivative of an operation (EmbeddingBag, grouped products of mixtures of experts, custom functions), the
tangents are central differences of plain passes, and their error is estimated from two step sizes.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.autograd.function import BackwardCFunction
from torch.func import functional_call
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from depthlr.errors import DepthlrError, kind_and_message
from depthlr.random_states import preserve_random_states
from depthlr.trace.interface import Arguments, cannot_run, has_floats
from depthlr.trace.preserve import preserve_state
from depthlr.trace.recorder import OnValue, Watch

# Lengths of the steps of a central difference, relative to the norm of the weights. The next one is tried if the last
# is not exact enough. A shorter step has a larger rounding error (in float32 about 1e-4, 1e-3 and 5e-3), but it sends
# fewer tokens to other experts, where the output jumps.
DIFFERENCES = (1e-4, 1e-5, 2e-6)
EXACT = 0.01  # relative error at which no smaller difference is tried
LARGEST_ERROR = 0.1  # of a central difference, relative; beyond it nothing is measured
OUTPUT = "output"
Values = dict[Any, Tensor]  # by watched node, and by (OUTPUT, place) for what the model returns
DETACHING = (Tensor.detach, torch.detach, Tensor.data.__get__)  # type: ignore[attr-defined]


@contextlib.contextmanager
def jvp(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    direction: Mapping[str, Tensor],
    arguments: Arguments,
    watch: Watch | None = None,
) -> Iterator[Any]:
    """Run the model on dual tensors: the tangents of the output are d output / d theta . direction.

    The tangents exist only inside this context.

    Args:
        model: The model to run.
        parameters: Its parameters by name.
        direction: The change of each parameter. Parameters without an entry do not change.
        arguments: Positional and named arguments of the model.
        watch: Nodes of a recorded run whose dual values are shown while the model runs.
    """
    run = _Run(model, parameters, direction, arguments)
    with forward_ad.dual_level(), torch.no_grad():
        try:
            with preserve_random_states(devices={p.device for p in parameters.values() if p.is_cuda}):
                output = run.on_duals(watch)
        except NotImplementedError as error:
            output = run.by_differences(watch, kind_and_message(error))
        yield output


@dataclass(frozen=True)
class _Run:
    """A model with its arguments, and the direction in which its weights change."""

    model: nn.Module
    parameters: Mapping[str, nn.Parameter]
    direction: Mapping[str, Tensor]
    arguments: Arguments

    def on_duals(self, watch: Watch | None) -> Any:
        """The output on dual tensors. Raises NotImplementedError at an operation without a forward-mode derivative."""
        duals = {n: p.detach() for n, p in self.parameters.items()}
        for name, change in self.direction.items():
            duals[name] = _make_dual(duals[name], change)
        with _hidden_custom_tangents(), _KeepTangents():
            return self._called(duals, watch)

    def _called(self, weights: dict[str, Tensor], watch: Watch | None) -> Any:
        try:
            with watch.recorder(self.model, weights, self.arguments) if watch else contextlib.nullcontext():
                return functional_call(self.model, weights, *self.arguments)
        except (NotImplementedError, DepthlrError):
            raise
        except Exception as error:
            raise cannot_run(error) from error

    def by_differences(self, watch: Watch | None, reason: str) -> Any:
        """The output as dual tensors whose tangents are central differences (z(+h) - z(-h)) / 2h.

        Args:
            watch: It sees dual tensors as in a forward-mode pass.
            reason: Why there is no forward-mode pass.
        """
        missing = f"an operation of the model has no forward-mode derivative in this PyTorch ({reason})"
        size = _norm(self.parameters[name].detach() for name in self.direction) / _norm(self.direction.values())
        error, changes = math.inf, {}
        for step in DIFFERENCES:
            found = self._difference(watch, step * size)
            estimate = _relative_error(found, self._difference(watch, 2 * step * size))
            if estimate < error:
                error, changes = estimate, found
            if error <= EXACT:
                break
        if error > LARGEST_ERROR:
            raise DepthlrError(
                f"{missing}, and finite differences are not exact enough (relative error {error:.2g}): replace the "
                "operation, such as the grouped product of experts by the batched one."
            )
        warnings.warn(
            f"{missing}: the step is measured by finite differences, with a relative error of about {error:.1g}.",
            stacklevel=4,
        )

        if watch is not None:
            watch = replace(watch, on_value=_with_tangents(watch.on_value, changes))
        with preserve_state(self.model):
            output = self._called({n: p.detach() for n, p in self.parameters.items()}, watch)
        place = count()

        def dual(tensor: Tensor) -> Tensor:
            return _make_dual(tensor, changes[OUTPUT, next(place)]) if has_floats(tensor) else tensor

        return tree_map_only(Tensor, dual, output)

    def _difference(self, watch: Watch | None, step: float) -> Values:
        plus, minus = self._values(watch, step), self._values(watch, -step)
        return {key: (value - minus[key]) / (2 * step) for key, value in plus.items()}

    def _values(self, watch: Watch | None, step: float) -> Values:
        """What the run computes at the weights after a step of this length."""
        weights = {name: p.detach() for name, p in self.parameters.items()}
        for name, change in self.direction.items():
            weights[name] = weights[name] + step * change
        values: Values = {}

        def keep(node: int, value: Tensor) -> None:
            values[node] = value.clone()

        with preserve_state(self.model):
            output = self._called(weights, watch and replace(watch, on_value=keep))
        returned = [one for one in tree_leaves(output) if isinstance(one, Tensor) and has_floats(one)]
        return values | {(OUTPUT, place): one for place, one in enumerate(returned)}


def _relative_error(changes: Values, others: Values) -> float:
    """The largest difference between changes and others, relative to the changes."""
    return max(_norm([mine - others[key]]) / (_norm([mine]) or 1.0) for key, mine in changes.items())


def _make_dual(value: Tensor, change: Tensor) -> Tensor:
    dual: Tensor = forward_ad.make_dual(value, change)  # type: ignore[no-untyped-call]
    return dual


def _with_tangents(on_value: OnValue, changes: Values) -> OnValue:
    """Call `on_value` with dual tensors: the values of the nodes with these tangents."""

    def on_dual_value(node: int, value: Tensor) -> None:
        on_value(node, _make_dual(value.clone(), changes[node]))

    return on_dual_value


def _norm(tensors: Iterable[Tensor]) -> float:
    return math.sqrt(sum(float(tensor.abs().double().square().sum()) for tensor in tensors))


@contextlib.contextmanager
def _hidden_custom_tangents() -> Iterator[None]:
    """Hide the operations of a custom function's tangent from recorders: they are not part of the run."""
    apply_jvp = BackwardCFunction.apply_jvp

    def unseen(*given: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return apply_jvp(*given)  # type: ignore[no-untyped-call]

    BackwardCFunction.apply_jvp = unseen  # type: ignore[method-assign]
    try:
        yield
    finally:
        BackwardCFunction.apply_jvp = apply_jvp  # type: ignore[method-assign]


class _KeepTangents(TorchFunctionMode):
    """Keep the tangents of detached values and of values written by `out=`: they change with the weights too."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if args and func in DETACHING:
            return args[0].view_as(args[0])
        if isinstance(out := kwargs.get("out"), Tensor):  # PyTorch refuses to write a dual tensor into `out=`
            return out.copy_(func(*args, **{name: value for name, value in kwargs.items() if name != "out"}))
        return func(*args, **kwargs)


def value_and_change(value: Tensor) -> tuple[Tensor, Tensor]:
    """Primal and tangent of a dual tensor. The tangent is zero if no weight influences the value."""
    primal, tangent = forward_ad.unpack_dual(value)  # type: ignore[no-untyped-call]
    return primal, torch.zeros_like(primal) if tangent is None else tangent
