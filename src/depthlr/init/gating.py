"""The gating factor q = E[sigma'(Z)^2] of an activation, which sets the fan-in variance 1 / (q fan_in)."""

import copy
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from depthlr import check
from depthlr.errors import DepthlrError, one_sentence_errors

Pointwise = Callable[[Tensor], Tensor]

_NAMES = (
    "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu sigmoid silu "
    "softplus softshrink softsign tanh tanhshrink"
)
ACTIVATION_FUNCTIONS: dict[str, Pointwise] = {
    **{name: getattr(F, name) for name in _NAMES.split()},
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "identity": lambda x: x * 1,
    "linear": lambda x: x * 1,
    "relu_squared": lambda x: F.relu(x).square(),
    "swish": F.silu,
}

_SPAN = 12.0  # standard deviations; the tail beyond holds 4e-33 of the mass
_PANEL = 1 / 8  # width of a first panel, in standard deviations
_TOLERANCE = 1e-13  # of the whole integral, for one panel
_FINEST = 1e-12  # standard deviations; a jump narrowed down to this no longer matters
_MOST_PANELS = 20_000  # a pointwise activation needs a few hundred
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_EDGES = np.array([-1.0, 1.0]) * (1 - 1e-9)  # just inside a panel's borders
# (nodes, edges): what a polynomial through the nodes says at the edges. A jump that hides between a border and the
# first node leaves the integral's two estimates equal; the value at the edge gives it away.
_TO_EDGES = np.linalg.solve(
    np.polynomial.legendre.legvander(_NODES, len(_NODES) - 1).T,
    np.polynomial.legendre.legvander(_EDGES, len(_NODES) - 1).T,
)


def gating_factor(activation: str | nn.Module | Pointwise, std: float = 1.0) -> float:
    """q = E[sigma'(std Z)^2] for Z ~ N(0, 1): 1/2 for ReLU, 0.456 for GELU.

    The quadrature halves every panel that holds a kink, so piecewise functions are exact too.

    Args:
        activation: A name, a module, or any pointwise function.
        std: The scale of the pre-activation.
    """
    std = check.positive("std", std)
    label, sigma = _pointwise(activation)
    _refuse_unless_pointwise(label, sigma, std)

    reach = _SPAN * std
    borders = np.linspace(-reach, reach, round(2 * _SPAN / _PANEL) + 1)
    left, right = borders[:-1], borders[1:]
    whole, _ = _panel_integrals(label, sigma, std, left, right)
    settled = 0.0
    while len(left) <= _MOST_PANELS:
        middle = (left + right) / 2
        ends = np.concatenate([left, middle]), np.concatenate([middle, right])
        parts, hidden = _panel_integrals(label, sigma, std, *ends)
        finer = parts.reshape(2, -1).sum(axis=0)
        error = np.maximum(np.abs(finer - whole), hidden.reshape(2, -1).max(axis=0))
        done = (error <= _TOLERANCE * (settled + whole.sum())) | (right - left <= _FINEST * std)
        settled += float(finer[done].sum())
        if done.all():
            return settled
        rough = np.tile(~done, 2)
        left, right, whole = ends[0][rough], ends[1][rough], parts[rough]
    raise DepthlrError(
        f"The derivative of {label} is too rough to integrate; if it is random, pass its deterministic form "
        "(a module in eval mode)."
    )


def _pointwise(activation: str | nn.Module | Pointwise) -> tuple[str, Pointwise]:
    """A name for messages, and a float64 function that shares nothing writable with the caller's module."""
    if isinstance(activation, str):
        name = check.one_of("activation", activation.strip().lower(), ACTIVATION_FUNCTIONS)
        return name, ACTIVATION_FUNCTIONS[name]
    if isinstance(activation, nn.PReLU):  # one slope a channel: only their mean square enters q
        slope = activation.weight.detach().double().cpu().square().mean().sqrt()
        return "PReLU", lambda x: F.prelu(x, slope)
    if isinstance(activation, nn.Module):
        return type(activation).__name__, copy.deepcopy(activation).cpu().double()
    if callable(activation):
        return getattr(activation, "__name__", repr(activation)), activation
    raise DepthlrError(f"An activation is a name, a module or a function, not {type(activation).__name__}.")


def _value_and_slope(label: str, sigma: Pointwise, points: np.ndarray) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.from_numpy(points).requires_grad_()
        with one_sentence_errors(f"{label} is no pointwise function that autograd differentiates"):
            y = sigma(x)
            (slope,) = torch.autograd.grad(y.sum(), x)
        if y.shape != x.shape:
            raise DepthlrError(f"{label} turned shape {tuple(x.shape)} into {tuple(y.shape)}; it is not pointwise.")
    y = y.detach()
    if not (torch.isfinite(y).all() and torch.isfinite(slope).all()):
        raise DepthlrError(
            f"{label} or its derivative is not finite somewhere between {points.min():g} and {points.max():g}; "
            "q needs both on the whole line."
        )
    return y, slope


def _refuse_unless_pointwise(label: str, sigma: Pointwise, std: float) -> None:
    """Half of the points must give half of the values: softmax, normalisation and random masks do not."""
    points = np.linspace(-3.1 * std, 2.9 * std, 64)
    every, _ = _value_and_slope(label, sigma, points)
    half, _ = _value_and_slope(label, sigma, points[::2].copy())
    if not torch.allclose(every[::2], half, rtol=1e-9, atol=1e-12):
        raise DepthlrError(f"{label} mixes its inputs or is random; q is defined for a pointwise, fixed activation.")


def _panel_integrals(
    label: str, sigma: Pointwise, std: float, left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each panel, of sigma'(x)^2 under N(0, std^2): the Gauss-Legendre integral, and what may hide at its edges."""
    half = (right - left)[:, None] / 2
    x = (right + left)[:, None] / 2 + half * np.append(_NODES, _EDGES)  # (panels, nodes and edges)
    _, slope = _value_and_slope(label, sigma, x.ravel())
    square, edges = np.split(slope.numpy().reshape(x.shape) ** 2, [len(_NODES)], axis=1)
    density = np.exp(-0.5 * (x[:, : len(_NODES)] / std) ** 2) / (std * math.sqrt(2 * math.pi))
    mass = half * _WEIGHTS * density
    return (square * mass).sum(axis=1), np.abs(square @ _TO_EDGES - edges).max(axis=1) * mass.sum(axis=1)
