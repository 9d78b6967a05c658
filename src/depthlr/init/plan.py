"""The initialization of each parameter of a traced model, planned once and applied for any number of seeds.

W ~ N(0, 1/(q fan_in))       with the gating factor q of the activation that feeds the weight (paper, Eq. 1)
x K^(-1/2)                   on the last weight of each residual branch of a ResNet with K updates (section 3.1)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import permutations
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from depthlr import check
from depthlr.errors import DepthlrError
from depthlr.init.gating import Pointwise, gating_factor
from depthlr.trace import operations as ops
from depthlr.trace.distances import Distances, compute_distances
from depthlr.trace.graph import Activation, Graph, Node
from depthlr.trace.interface import clean_path, unwrap
from depthlr.trace.tracing import trace
from depthlr.trace.units import Unit, branch_weighted, last_weighted, units_of

Variance = Literal["gating", "he"]
BranchScale = Literal["auto", "last", "each", "none"]
SHIFTS = ("bias", "beta", "shift", "b_2")  # what norms call the parameter they add
SAME_SIZE = 0.25  # He's factor for GELU is 5 % from ours; torch's default for nn.Linear less than 0.6 times it
TOKEN_STD = 0.02  # positional embeddings and class tokens: small truncated normal
FRESH_SLOPE = 0.25  # of nn.PReLU


@dataclass(frozen=True)
class ParameterInit:
    """What one parameter becomes: "normal" (with `std`), "token", "ones", "zeros", or "kept" as it is."""

    name: str
    become: str
    std: float = 0.0
    padding: int | None = None  # an embedding's row that stays zero


def init_plan(
    model: nn.Module, example: Any, *, variance: Variance = "gating", branch_scale: BranchScale = "auto"
) -> tuple[ParameterInit, ...]:
    """The initialization of every parameter of a model, from one run.

    Args:
        model: The model.
        example: An input to run it on.
        variance: "gating" takes q of each activation, "he" takes q = 1/2 for all.
        branch_scale: Which weights of a residual branch are scaled by K^(-1/2): "last", "each", "none", or "auto". Auto
            is the last one unless the model is a transformer.
    """
    return plan_of(model, trace(model, example), variance=variance, branch_scale=branch_scale)


def plan_of(
    model: nn.Module, graph: Graph, *, variance: Variance = "gating", branch_scale: BranchScale = "auto"
) -> tuple[ParameterInit, ...]:
    """The same from a recorded run.

    Args:
        model: The model.
        graph: A run of the model, recorded.
        variance: As in `init_plan`.
        branch_scale: As in `init_plan`.
    """
    check.one_of("variance", variance, ("gating", "he"))
    check.one_of("branch_scale", branch_scale, ("auto", "last", "each", "none"))
    if any(node.name in ops.RECURRENT for node in graph.nodes):
        raise DepthlrError("the model is recurrent, and the paper's initialization covers non-recurrent models alone.")
    parameters = {clean_path(n): p for n, p in unwrap(model).named_parameters()}
    graph = replace(graph, nodes=[_with_slope(node, parameters) for node in graph.nodes])
    distances = compute_distances(graph)
    units = units_of(graph, distances)
    if not units:
        raise DepthlrError(
            "no weighted layer lies between the model's input and its output, so nothing can be initialized by its "
            "fan-in: pass the whole model."
        )
    sizes = {path: p.shape[-1] for path, p in parameters.items() if p.dim() > 1}
    stds = _weight_stds(graph, units, variance, sizes)
    scaled = _branch_weights(graph, distances, units, branch_scale)
    blocks = sum(u.kind == "residual" for u in units)
    normed = _norm_parameters(unwrap(model))
    tokens = _tokens(graph)
    paddings = _paddings(model)
    plan = []
    for name, parameter in unwrap(model).named_parameters():
        path = clean_path(name)
        if not parameter.requires_grad:
            plan.append(ParameterInit(name, "kept"))  # frozen: a pretrained trunk, or a constant
        elif path in normed and path not in stds:
            plan.append(ParameterInit(name, normed[path]))
        elif path in stds:
            std = stds[path] * (blocks**-0.5 if path in scaled else 1.0)
            plan.append(ParameterInit(name, "normal", std, paddings.get(id(parameter))))
        elif path.endswith("bias") and parameter.dim() == 1:
            plan.append(ParameterInit(name, "zeros"))
        elif path in tokens and parameter.dim() > 1:
            plan.append(ParameterInit(name, "token", TOKEN_STD))
        else:
            plan.append(ParameterInit(name, "kept"))
    return tuple(plan)


def apply_plan(model: nn.Module, plan: tuple[ParameterInit, ...], generator: torch.Generator | None = None) -> None:
    """Write a planned initialization into a model, in place.

    Args:
        model: The model that was planned, or a copy.
        plan: From `init_plan`.
        generator: What weights are drawn from; torch's default generator if None.
    """
    parameters = dict(unwrap(model).named_parameters())
    with torch.no_grad():
        for step in plan:
            _fill(parameters[step.name], step, generator)


def follows_plan(model: nn.Module, plan: tuple[ParameterInit, ...]) -> bool:
    """Do all weights have the root mean square of the plan, within a factor of 1.25 and sampling error?

    Args:
        model: The model that was planned, or a copy.
        plan: From `init_plan`.
    """
    parameters = dict(unwrap(model).named_parameters())
    for step in plan:
        if step.become == "normal" and (count := parameters[step.name].numel()):
            size = float(parameters[step.name].detach().abs().double().square().mean().sqrt())
            chance = 4 / math.sqrt(2 * count)  # four standard errors of a root mean square
            if not size > 0 or abs(math.log(size / step.std)) > math.log(1 + SAME_SIZE) + chance:
                return False
    return True


def _fill(parameter: Tensor, step: ParameterInit, generator: torch.Generator | None) -> None:
    if step.become == "normal":
        parameter.normal_(0.0, step.std, generator=generator)
        if step.padding is not None:
            parameter[step.padding].zero_()
    elif step.become == "token":
        nn.init.trunc_normal_(parameter, std=step.std, a=-2 * step.std, b=2 * step.std, generator=generator)
    elif step.become == "ones":
        parameter.fill_(1.0)
    elif step.become == "zeros":
        parameter.zero_()


def init_(
    model: nn.Module,
    example: Any,
    *,
    seed: int | None = None,
    variance: Variance = "gating",
    branch_scale: BranchScale = "auto",
) -> nn.Module:
    """Initialize `model` in place for stable depth, and return it. Frozen parameters keep their values.

    Args:
        model: The model to initialize.
        example: An input that the model accepts.
        seed: Seeds the weights; None draws from torch's global state.
        variance: As in `init_plan`.
        branch_scale: As in `init_plan`.
    """
    if any(p.is_meta for p in model.parameters()):
        raise DepthlrError("the model's weights are on the meta device: give it memory first, by model.to_empty(...).")
    if not any(p.requires_grad for p in model.parameters()):
        raise DepthlrError("every parameter is frozen, so there is nothing to initialize: call requires_grad_() first.")
    plan = init_plan(model, example, variance=variance, branch_scale=branch_scale)
    generator = None
    if seed is not None:
        drawn_from = check.seed("The seed", seed)
        generator = torch.Generator(device=next(model.parameters()).device).manual_seed(drawn_from)
    apply_plan(model, plan, generator)
    return model


def _weight_stds(graph: Graph, units: tuple[Unit, ...], variance: Variance, sizes: dict[str, int]) -> dict[str, float]:
    """Standard deviation 1/sqrt(q fan_in) of every weight that multiplies the signal."""
    head = units[-1].node if units[-1].role == "head" else None
    stds: dict[str, float] = {}
    for index, node in enumerate(graph.nodes):
        if not (node.weighted and node.fan_in) or node.several_parameters:
            continue  # several parameters make up this weight: their author decides how they share its variance
        q = 1.0 if index == head else _feeding_factor(graph, index, he=variance == "he")
        for name in node.weights:
            if not name.endswith("bias"):
                # Attention with widths of its own for keys and values holds three matrices in one call.
                own = node.name == ops.IN_PROJECTION and name in sizes
                std = (q * (sizes[name] if own else node.fan_in)) ** -0.5
                stds[name] = min(std, stds.get(name, std))  # a tied embedding takes the head's smaller variance
    return stds


def _branch_weights(graph: Graph, distances: Distances, units: tuple[Unit, ...], scale: BranchScale) -> set[str]:
    """Weights that carry K^(-1/2)."""
    if scale == "auto":
        scale = "none" if _is_transformer(graph) else "last"
    if scale == "none":
        return set()
    pick = last_weighted if scale == "last" else branch_weighted
    updates = [u.node for u in units if u.kind == "residual"]
    return {name for n in updates for i in pick(graph, distances, n) for name in graph.nodes[i].weights}


def _is_transformer(graph: Graph) -> bool:
    """Attention, or token norms: transformers and their kin take plain fan-in without K^(-1/2)."""
    by_operation = any(n.name in ops.ATTENTION or ops.is_token_norm(n.name) for n in graph.nodes)
    return by_operation or any(ops.is_token_norm(c.kind) for c in graph.calls)


def _norm_parameters(model: nn.Module) -> dict[str, str]:
    """Scale and shift of every normalisation layer."""
    found = {}
    for path, module in model.named_modules():
        if "Norm" in type(module).__name__:
            for name, parameter in module.named_parameters(recurse=False):
                found[clean_path(f"{path}.{name}" if path else name)] = _norm_constant(module, name, parameter)
    return found


def _norm_constant(norm: nn.Module, name: str, parameter: Tensor) -> str:
    """Ones for a scale and zeros for a shift.

    Torch's own norms scale by their weight, even if it was set to zero so that a branch starts at zero. For other
    norms a newly built one is read, because some store their scale as 1 + w.
    """
    if any(word in name for word in SHIFTS):
        return "zeros"
    reset = getattr(type(norm), "reset_parameters", None)
    is_torch_norm = reset is not None and reset.__module__.startswith("torch.nn.modules.")
    if not is_torch_norm and not parameter.is_meta and bool((parameter == 0).all()):
        return "zeros"
    return "ones"


def _paddings(model: nn.Module) -> dict[int, int | None]:
    """The row that stands for padding, by the id of its embedding's weight, which may be tied to others."""
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    return {id(p): m.padding_idx for m in tables for name, p in m.named_parameters(recurse=False) if name == "weight"}


def _tokens(graph: Graph) -> set[str]:
    """Parameters that join the signal without multiplying it: positions, class and mask tokens, attention biases."""
    joined = (node for node in graph.nodes if not node.weighted and node.name in ops.JOINS)
    return {name for node in joined for name in node.weights}


@lru_cache(maxsize=256)  # a deep model asks for the same activations at every layer
def _factor(steps: tuple[Pointwise, ...]) -> float:
    """q of a composition of activations."""

    def composition(z: Tensor) -> Tensor:
        for step in steps:
            z = step(z)
        return z

    return gating_factor(steps[0] if len(steps) == 1 else composition)


def _feeding_factor(graph: Graph, index: int, *, he: bool) -> float:
    """q of the activation whose output a weight reads, 1/2 with `he`. It is 1 for inputs, norms and streams."""
    pending = list(graph.nodes[index].inputs)
    while pending:
        source = pending.pop()
        steps = _activations(graph, source)
        if steps:
            return 0.5 if he else _factor(steps)
        if graph.nodes[source].name in ops.TRANSPARENT:
            pending.extend(graph.nodes[source].inputs)
    return 1.0


def _activations(graph: Graph, index: int) -> tuple[Pointwise, ...]:
    """The composition of activations that produced a value: relu(x) ** 2 is two."""
    steps: list[Pointwise] = []
    while (found := _activation(graph, index)) is not None:
        step, before = found
        steps.insert(0, step)
        if before is None:
            break
        index = before
        while graph.nodes[index].name in ops.TRANSPARENT and len(graph.nodes[index].inputs) == 1:
            (index,) = graph.nodes[index].inputs
    return tuple(steps)


def _activation(graph: Graph, index: int) -> tuple[Pointwise, int | None] | None:
    """The last activation that made a value, and its input if that is known.

    It is a torch function, a scripted function, a module that writes one out (as GELU variants do), or the product of a
    value and its own activation, as in x * sigmoid(x).
    """
    node = graph.nodes[index]
    call = graph.calls[node.scope]
    written_out = call.output_node == index and node.name in ops.MULTIPLICATIONS
    if written_out and call.module is not None and not list(call.module.parameters()) and _is_pointwise(call.module):
        return call.module, None
    function = _function(node)
    if function is not None:
        return function, node.inputs[0]
    if node.name in ops.ELEMENTWISE_PRODUCTS:
        for value, gate in permutations(node.inputs, 2):
            function = _function(graph.nodes[gate])
            whole = graph.nodes[value].output_count < 2  # a gated linear unit multiplies one half by the other
            if function is not None and graph.nodes[gate].inputs == (value,) and whole:
                return SelfGated(function), value
    return None


def _function(node: Node) -> Pointwise | None:
    """The activation that an operation is; a scripted one may be anything, and is tried."""
    found = node.activation
    if found is not None and isinstance(found.function, torch.jit.ScriptFunction) and not _is_pointwise(found):
        return None
    return found


def _is_pointwise(function: Pointwise) -> bool:
    try:
        _factor((function,))
    except DepthlrError:
        return False
    return True


@dataclass(frozen=True)
class SelfGated:
    """z sigma(z): SiLU, where sigma is the sigmoid."""

    gate: Pointwise

    def __call__(self, z: Tensor) -> Tensor:
        return z * self.gate(z)


def _with_slope(node: Node, parameters: Mapping[str, Tensor]) -> Node:
    """PReLU as the leaky ReLU of the same q. A trace does not see its slopes; q depends on their mean square."""
    if node.name != "prelu" or not node.weights:
        return node
    slopes = parameters.get(node.weights[0])
    slope = FRESH_SLOPE
    if slopes is not None and not slopes.is_meta:
        slope = float(slopes.detach().double().square().mean().sqrt())
    return replace(node, activation=Activation(F.leaky_relu, (slope,)))
