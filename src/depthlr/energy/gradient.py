"""The gradient of a loss at the weights as they are; `.grad` and the model are not touched."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from depthlr.energy.batches import split_batch
from depthlr.energy.tensors import add_gradients, dense
from depthlr.errors import DepthlrError, one_sentence_errors
from depthlr.trace.graph import ROOT, Graph
from depthlr.trace.interface import (
    NO_GRADIENT,
    Arguments,
    LossFn,
    cannot_run,
    check_loss,
    check_runnable,
    is_sharded,
    logits_of,
    readouts_of,
    unwrap,
)
from depthlr.trace.preserve import force_eager, preserve_attributes, preserve_state, preserve_weights
from depthlr.trace.recorder import Recorder


def unwrap_measurable(model: nn.Module) -> tuple[nn.Module, dict[str, nn.Parameter]]:
    """The user's module inside all wrappers, and its parameters. Raise if no step of it can be measured."""
    model = unwrap(model)
    check_runnable(model)
    parameters = dict(model.named_parameters())
    if torch.is_inference_mode_enabled():
        raise DepthlrError("under torch.inference_mode() nothing has a gradient: measure outside of it.")
    if is_sharded(model):
        raise DepthlrError("update energy needs whole weights: measure before wrapping the model in FSDP.")
    if any(p.is_meta for p in parameters.values()):
        raise DepthlrError("the model's weights are on the meta device: energies need real ones.")
    if not any(p.requires_grad for p in parameters.values()):
        raise DepthlrError("every parameter is frozen, so a step changes nothing.")
    return model, parameters


@contextlib.contextmanager
def seeded_run(model: nn.Module, seed: int, loss_fn: LossFn | None = None) -> Iterator[None]:
    """Run every pass inside under the same random state. State of the model and of the loss is restored.

    Args:
        model: The model that runs inside.
        seed: Seeds the random states.
        loss_fn: A loss that is evaluated inside, if any. It may be a module with a state.
    """
    stateful = preserve_attributes(loss_fn) if isinstance(loss_fn, nn.Module) else contextlib.nullcontext()
    # Forward mode has no formula for fused attention kernels, and their dropout masks differ from those of the plain
    # kernel. All passes use the plain kernel.
    with force_eager(), preserve_state(model, seed), preserve_weights(model), stateful, sdpa_kernel(SDPBackend.MATH):
        yield


@dataclass(frozen=True)
class LossGradients:
    """The loss of one batch and its gradients."""

    readout: int  # index of the output that the loss reads
    loss: Tensor
    gradients: dict[str, Tensor]
    graph: Graph  # of the forward pass; empty if it was not recorded


def loss_gradients(
    model: nn.Module,
    parameters: Mapping[str, nn.Parameter],
    batch: Any,
    loss_fn: LossFn | None,
    seed: int,
    *,
    readout: int | None = None,
    record: bool = False,
    allow_recurrence: bool = False,
) -> LossGradients:
    """Compute the loss of one batch and its gradients.

    Args:
        model: The model, which is not changed.
        parameters: Its parameters by name.
        batch: One batch.
        loss_fn: The loss of output and target. If None, the model's output holds it.
        seed: Seeds dropout.
        readout: The index of the readout, if it is known. Finding it costs extra passes.
        record: Record the forward pass as a graph.
        allow_recurrence: Record LSTM, GRU and RNN layers, which are refused otherwise.

    Raises:
        DepthlrError: If the model cannot run, or the loss has no gradient.
    """
    # Detached copies, which share the memory of the parameters, are leaves of a new autograd graph.
    leaves = {name: p.detach().requires_grad_(p.requires_grad) for name, p in parameters.items()}

    def attempt(recorder: Recorder | None) -> LossGradients:
        arguments, target = split_batch(batch, next(iter(parameters.values())).device)
        with seeded_run(model, seed, loss_fn):
            if recorder is not None:
                recorder.declare_inputs(arguments)
            with recorder or contextlib.nullcontext():
                output = _run(model, leaves, arguments)
            if readout is None:
                _check_followed(output, parameters)
            loss = _loss_of(output, target, loss_fn)
            index = _find_readout(output, loss) if readout is None else readout
            if recorder is not None:
                recorder.declare_output(output, index)
            gradients = _gradients_of(loss, leaves, parameters)
        return LossGradients(index, loss.detach(), gradients, recorder.graph if recorder else Graph())

    if not record:
        return attempt(None)
    found = attempt(Recorder(model, leaves, allow_recurrence=allow_recurrence))
    if found.graph.readout == ROOT:  # as in effective_depth: one-hot tokens and byte images are integers at first
        return attempt(Recorder(model, leaves, allow_recurrence=allow_recurrence, integers_are_signal=True))
    return found


def _run(model: nn.Module, leaves: dict[str, Tensor], arguments: Arguments) -> Any:
    with torch.enable_grad():
        try:
            return functional_call(model, leaves, *arguments)
        except DepthlrError:
            raise
        except Exception as error:
            raise cannot_run(error) from error


def _check_followed(output: Any, parameters: Mapping[str, nn.Parameter]) -> None:
    """Raise if the model reads a weight other than through its attribute: `functional_call` cannot replace it."""
    names = {id(parameter): name for name, parameter in parameters.items()}
    for readout in readouts_of(output):
        for node in _graph_behind(readout):
            if (name := names.get(id(getattr(node, "variable", None)))) is not None:
                raise DepthlrError(
                    f"the model reads its weight {name} from elsewhere too, such as a list, where a step cannot be "
                    "followed: read the attribute, or hold the weights in an nn.ParameterList."
                )


def _loss_of(output: Any, target: Any, loss_fn: LossFn | None) -> Tensor:
    """The loss from `loss_fn`, or from the output of the model if that is None. It must have a gradient."""
    with torch.enable_grad(), one_sentence_errors("loss_fn failed on the model's output"):
        loss = _own_loss(output) if loss_fn is None else loss_fn(output, target)
    return check_loss(loss)


def _own_loss(output: Any) -> Any:
    """The loss that the model's output holds, as those of Hugging Face do where a batch has labels."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if loss is None:
        raise DepthlrError(
            "without loss_fn= the model's output must hold its loss: pass loss_fn=, or a batch with labels to a model "
            "that computes it."
        )
    return loss


def _find_readout(output: Any, loss: Tensor) -> int:
    """The index of the readout: `logits`, or the deepest output that the loss reads and no other such output uses."""
    readouts = readouts_of(output)
    indices = [index for index, tensor in enumerate(readouts) if tensor.requires_grad]
    if len(readouts) < 2 or not indices:
        return 0
    moving = {index: readouts[index] for index in indices}
    read = sorted(_behind(loss, moving))
    if logits_of(output) is not None and 0 in read:
        return 0
    used: set[int] = set()
    for index in read:
        used |= _behind(readouts[index], moving) - {index}
    last = [index for index in read if index not in used]
    return max(last, key=lambda index: len(_graph_behind(readouts[index])), default=0)  # the first of equals


def _behind(value: Tensor, candidates: Mapping[int, Tensor]) -> set[int]:
    """The candidates on which a value depends."""
    gradients = _grad(value.abs().sum(), list(candidates.values()), retain_graph=True)
    return {index for index, gradient in zip(candidates, gradients, strict=True) if gradient is not None}


def _grad(of: Tensor, by: Sequence[Tensor], *, retain_graph: bool = False) -> tuple[Tensor | None, ...]:
    """Gradients of `of`; None for a tensor that does not influence it."""
    with one_sentence_errors("the loss has no gradient: its backward pass failed"):
        return torch.autograd.grad(of, by, allow_unused=True, retain_graph=retain_graph)


def _gradients_of(
    loss: Tensor, leaves: Mapping[str, Tensor], parameters: Mapping[str, nn.Parameter]
) -> dict[str, Tensor]:
    """Gradients by parameter name, through the model and through a penalty that reads parameters directly."""
    if any(node.name() == "CheckpointFunctionBackward" for node in _graph_behind(loss)):
        raise DepthlrError("the model checkpoints with use_reentrant=True, which hides gradients: use_reentrant=False.")
    moving = [n for n, leaf in leaves.items() if leaf.requires_grad]
    through_model = [leaves[n] for n in moving]
    directly = [parameters[n] for n in moving]
    found = _grad(loss, [*through_model, *directly])
    gradients: dict[str, Tensor] = {}
    for name, gradient in zip([*moving, *moving], found, strict=True):
        if gradient is not None:
            gradients[name] = add_gradients(gradients[name], gradient) if name in gradients else gradient
    if not gradients:  # the loss may still move with inputs that require a gradient
        raise DepthlrError(NO_GRADIENT)
    return gradients


def _graph_behind(tensor: Tensor) -> set[Any]:
    """All autograd nodes on which a tensor depends. A deeper value has more of them."""
    seen: set[Any] = set()
    pending = [tensor.grad_fn]
    while pending:
        node = pending.pop()
        if node is not None and node not in seen:
            seen.add(node)
            pending.extend(following for following, _ in node.next_functions)
    return seen


def largest_entry_if_finite(loss: Tensor, gradients: Mapping[str, Tensor]) -> float:
    """The largest absolute entry of a gradient that must be finite.

    Args:
        loss: The loss on a batch.
        gradients: Its gradients by parameter name.

    Raises:
        DepthlrError: If the loss or the gradient is not finite.
    """
    sizes = [loss.new_zeros(()).double()]
    for gradient in gradients.values():
        if gradient.numel():
            sizes.append(dense(gradient).abs().max().double())
    value, largest = torch.stack([loss.double().reshape(()), torch.stack(sizes).max()]).tolist()
    if not math.isfinite(value):
        raise DepthlrError(f"the loss is {value} on this batch, so it has no step: check the data and the init.")
    if not math.isfinite(largest):
        raise DepthlrError("the gradient has NaN or infinite entries, so it has no step: check the data and the init.")
    return float(largest)


def check_moves(largest: float) -> None:
    """Raise if the largest entry of the gradient is zero."""
    if largest == 0:
        raise DepthlrError("the gradient is zero everywhere, so no rate moves the model: check the loss and the init.")
