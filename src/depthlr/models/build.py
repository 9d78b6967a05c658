"""Build a model from its text, with an example input."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from depthlr.errors import DepthlrError, kind_and_message
from depthlr.models.inputs import Example, Ids, InputShape, parse_input
from depthlr.models.libraries import build_hf, build_python, build_timm, main_input_name
from depthlr.models.spec import ModelSpec, parse_spec
from depthlr.models.zoo import ZOO


def build(spec: str | ModelSpec, *, input: str | None = None, meta: bool = False) -> tuple[nn.Module, Example]:
    """Build a model with new weights, as torch initializes them.

    Args:
        spec: the model, as text such as `cnn?layers=8` or parsed.
        input: the shape of the example input, such as `3x32x32` or `ids:128:50257`. A zoo model is built to fit it.
            By default the model determines the shape.
        meta: build on the meta device, which allocates no memory. A model whose constructor reads values of tensors is
            built on the CPU instead.

    Returns:
        The model, and an example input with a batch of 2.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    shape = None if input is None else parse_input(input)
    try:
        return _build(spec, shape, meta)
    except DepthlrError:
        raise
    except Exception as error:  # timm, transformers and the user's own code can raise anything
        if meta:  # the constructor may read values, such as torch.linspace(0, p, blocks); the meta device has none
            return build(spec, input=input)
        raise DepthlrError(f"{spec} could not be built ({kind_and_message(error)}).") from error


def _build(spec: ModelSpec, shape: InputShape | None, meta: bool) -> tuple[nn.Module, Example]:
    with torch.device("meta") if meta else nullcontext():
        if spec.family == "zoo":
            model, zoo_shape = _build_zoo(spec, shape)
            return model, (zoo_shape.tensor(meta=meta),)
        if spec.family == "timm":
            model, image = build_timm(spec.name, dict(spec.arguments))
            return model, ((shape or image).tensor(meta=meta),)
        if spec.family == "hf":
            model, inputs = build_hf(spec.name, dict(spec.arguments))
            shapes = _hf_inputs(model, inputs, shape)
            return model, {name: one.tensor(meta=meta) for name, one in shapes.items()}
        model, example = build_python(spec.name, dict(spec.arguments))
    if shape is not None:
        return model, (shape.tensor(meta=meta),)
    if example is None:
        raise DepthlrError(
            f"{spec.name} returned a model without an example input: give an input such as 3x32x32 or "
            "ids:128:50257, or let the callable return (model, example)."
        )
    return model, example


def _build_zoo(spec: ModelSpec, shape: InputShape | None) -> tuple[nn.Module, InputShape]:
    entry = ZOO[spec.name]
    fitted = {} if shape is None else entry.arguments_for(shape)
    for key, value in fitted.items():
        if spec.arguments.get(key, value) != value:
            raise DepthlrError(
                f"{spec} has {key}={spec.arguments[key]} but the input {shape} needs {key}={value}: remove one."
            )
    arguments: dict[str, Any] = {**entry.defaults, **fitted, **spec.arguments}
    return entry.builder(**arguments), shape or entry.input(arguments)


def _hf_inputs(
    model: nn.Module, inputs: Mapping[str, InputShape], shape: InputShape | None
) -> Mapping[str, InputShape]:
    name = main_input_name(model)
    if shape is None and not inputs:
        raise DepthlrError(f"{name} of this model has no known size: give an input, such as 3x224x224 or ids:16:1000.")
    if shape is None:
        return inputs
    if isinstance(shape, Ids):
        names = [key for key in inputs if key.endswith("input_ids")]
        return dict.fromkeys(names or [name], shape)
    decoder = {key: ids for key, ids in inputs.items() if key == "decoder_input_ids"}
    main = "inputs_embeds" if name == "input_ids" else name  # a model of tokens takes numbers under another name
    return decoder | {main: shape}
