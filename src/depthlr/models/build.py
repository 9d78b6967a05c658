"""From a model's text to the model and an example input for it."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from depthlr.errors import DepthlrError, kind_and_message
from depthlr.models.inputs import Example, Ids, InputShape, parse_input
from depthlr.models.libraries import build_hf, build_python, build_timm, main_input_name
from depthlr.models.spec import ModelSpec, check_arguments, parse_spec
from depthlr.models.zoo import ZOO


def build(spec: str | ModelSpec, *, input: str | None = None, meta: bool = False) -> tuple[nn.Module, Example]:
    """The model, freshly initialised by torch, and an example input with a batch of 2.

    `input` such as `3x32x32` or `ids:128:50257` replaces the example; a zoo model is also built to fit it. With
    `meta=True` nothing is allocated: parameters and example live on the meta device, unless building reads values.
    """
    spec = parse_spec(spec) if isinstance(spec, str) else spec
    shape = None if input is None else parse_input(input)
    try:
        return _build(spec, shape, meta)
    except DepthlrError:
        raise
    except Exception as error:  # builders are other people's code: timm, transformers, the user's own
        if meta:  # it may read values, such as those of torch.linspace(0, p, blocks), which the meta device has not
            return build(spec, input=input)
        raise DepthlrError(f"{spec} could not be built ({kind_and_message(error)}).") from error


def _build(spec: ModelSpec, shape: InputShape | None, meta: bool) -> tuple[nn.Module, Example]:
    with torch.device("meta") if meta else nullcontext():
        if spec.family == "zoo":
            model, wanted = _build_zoo(spec, shape)
            return model, (wanted.tensor(meta=meta),)
        if spec.family == "timm":
            model, image = build_timm(spec.name, dict(spec.arguments))
            return model, ((shape or image).tensor(meta=meta),)
        if spec.family == "hf":
            model, inputs = build_hf(spec.name, dict(spec.arguments))
            return model, {name: s.tensor(meta=meta) for name, s in _hf_inputs(model, inputs, shape).items()}
        model, example = build_python(spec.name, dict(spec.arguments))
    if shape is not None:
        return model, (shape.tensor(meta=meta),)
    if example is None:
        raise DepthlrError(
            f"{spec.name} returned a model without an example input: give one, such as 3x32x32 or ids:128:50257, "
            "or let the callable return (model, example)."
        )
    return model, example


def _build_zoo(spec: ModelSpec, shape: InputShape | None) -> tuple[nn.Module, InputShape]:
    check_arguments(spec)
    entry = ZOO[spec.name]
    fitted = {} if shape is None else entry.arguments_for(shape)
    for key, value in fitted.items():
        if spec.arguments.get(key, value) != value:
            raise DepthlrError(f"{spec} has {key}={spec.arguments[key]} but the input {shape} means {value}: drop one.")
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
        return dict.fromkeys([key for key in inputs if key.endswith("input_ids")] or [name], shape)
    decoder = {key: ids for key, ids in inputs.items() if key == "decoder_input_ids"}
    return decoder | {"inputs_embeds" if name == "input_ids" else name: shape}
