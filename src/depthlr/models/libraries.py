"""Models of other libraries, without pretrained weights: timm, transformers, and a user's own callable."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from depthlr.errors import DepthlrError, did_you_mean
from depthlr.models.inputs import Example, Floats, Ids, InputShape
from depthlr.python_name import call_by_name
from depthlr.spec_text import Value

# Masked before causal: bert and similar models are listed under both, and are encoders by default.
HEAD_CLASSES = (
    "AutoModelForMaskedLM",
    "AutoModelForCausalLM",
    "AutoModelForImageClassification",
    "AutoModelForAudioClassification",
    "AutoModelForSequenceClassification",
    "AutoModel",
)
SEQUENCE_LENGTH = 16  # enough to run every operation
IMAGE_SIZE = 224  # for convolutional models, which take any size
AUDIO_SAMPLES = 8000  # half a second of speech
_declared: list[torch.library.Library] = []  # kept, since operators disappear with their library


def _import_library(package: str, prefix: str) -> Any:
    try:
        import_torchvision()
        return import_module(package)
    except ImportError as error:
        raise DepthlrError(
            f"{prefix}/ models need the package {package}: run pip install 'depthlr[{prefix}]' ({error})."
        ) from error


def import_torchvision() -> None:
    """Import torchvision if it is installed, with or without its compiled operators.

    timm and transformers import torchvision where it is installed. If its wheel was built for another torch, its
    operators do not load, and the import fails because two of them are missing. No model here calls those two.
    Declared without an implementation, they let the import succeed.
    """
    if find_spec("torchvision") is None:
        return
    try:
        import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::" not in str(error) or _declared:
            raise
        library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")  # type: ignore[no-untyped-call]
        _declared.append(library)
        import_module("torchvision")


def build_timm(name: str, arguments: dict[str, Value]) -> tuple[nn.Module, Floats]:
    """Build a model of timm with random weights.

    Args:
        name: a name that `timm.list_models()` returns.
        arguments: the keyword arguments of `timm.create_model`.

    Returns:
        The model, and the shape of the images that it takes.
    """
    timm = _import_library("timm", "timm")
    if arguments.get("pretrained"):
        raise DepthlrError("pretrained weights are not supported: depthlr measures models at initialization.")
    if not timm.is_model(name.partition(".")[0]):
        near = did_you_mean(name, timm.list_models())
        raise DepthlrError(f"timm has no model {name!r}{near}: see timm.list_models() for those it has.")
    model: nn.Module = timm.create_model(name, **arguments)
    return model, Floats(_image_shape(model, arguments))


def _image_shape(model: Any, arguments: dict[str, Value]) -> tuple[int, ...]:
    channels, height, width = model.pretrained_cfg["input_size"]
    if isinstance(in_chans := arguments.get("in_chans"), int):
        channels = in_chans
    size = arguments.get("img_size")
    if isinstance(size, int):
        height = width = size
    elif isinstance(size, tuple) and len(size) == 2:
        height, width = size
    return (channels, height, width)


def build_hf(name: str, arguments: dict[str, Value]) -> tuple[nn.Module, Mapping[str, InputShape]]:
    """Build a model of transformers with random weights and a head.

    Args:
        name: a model type, such as gpt2.
        arguments: the keyword arguments of its config.

    Returns:
        The model, and the shapes of the inputs of its forward by name; none if their size is unknown.
    """
    transformers = _import_library("transformers", "hf")
    config = _make_config(transformers, name, arguments)
    heads: tuple[str, ...] = HEAD_CLASSES
    if getattr(config, "is_encoder_decoder", False):
        heads = ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq", *HEAD_CLASSES)
    elif getattr(config, "is_decoder", False):
        heads = ("AutoModelForCausalLM", *HEAD_CLASSES)
    for head in heads:
        auto = getattr(transformers, head)
        if type(config) in auto._model_mapping:
            model = _make_model(auto, config)
            return model, _input_shapes(config, main_input_name(model))
    raise DepthlrError(
        f"transformers cannot build {name} by itself: write a callable that does, package.module:callable."
    )


def main_input_name(model: nn.Module) -> str:
    """Return the name of the main input of a transformers model.

    Args:
        model: the model.
    """
    name = getattr(model, "main_input_name", "input_ids")
    return name if isinstance(name, str) else str(name[0])  # OneFormer has two


def _make_model(auto: Any, config: Any) -> nn.Module:
    kinds = auto._model_mapping[type(config)]
    if isinstance(kinds, tuple) and not config.architectures:  # such as DeiT with or without a teacher
        config.architectures = [kinds[0].__name__]
    model: nn.Module = auto.from_config(config)
    return model


def _make_config(transformers: Any, name: str, arguments: dict[str, Value]) -> Any:
    if name not in transformers.CONFIG_MAPPING:
        near = did_you_mean(name, transformers.CONFIG_MAPPING.keys())
        raise DepthlrError(f"transformers has no model type {name!r}{near}: write one such as hf/gpt2 or hf/llama.")
    config_class = transformers.CONFIG_MAPPING[name]
    default = config_class()
    for key in arguments:
        # A config accepts any keyword: a misspelled n_layers would silently build the default depth.
        if not hasattr(default, key):
            near = did_you_mean(key, default.to_dict())
            raise DepthlrError(
                f"The config of {name} has no {key!r}{near}: see {config_class.__name__} for those it has."
            )
    keywords: dict[str, Any] = dict(arguments)
    for key, value in arguments.items():
        if isinstance(value, tuple):
            keywords[key] = list(value)
    config = config_class(**keywords)
    if hasattr(config, "use_cache") and "use_cache" not in arguments:
        config.use_cache = False  # the key-value cache is for generation only
    if hasattr(config, "_experts_implementation") and "_experts_implementation" not in arguments:
        config._experts_implementation = "batched_mm"  # the grouped kernel has no forward-mode derivative
    return config


def _input_shapes(config: Any, main: str) -> Mapping[str, InputShape]:
    """Return the shape of the main input, and of the decoder's if there is one; nothing if the size is unknown."""
    text = config.get_text_config()
    vocabulary = getattr(text, "vocab_size", None)
    ids: dict[str, InputShape] = {}
    if isinstance(vocabulary, int):
        longest = getattr(text, "max_position_embeddings", None) or SEQUENCE_LENGTH
        length = min(SEQUENCE_LENGTH, longest) if longest > 0 else SEQUENCE_LENGTH  # XLNet says -1: no limit
        ids["input_ids"] = Ids(length, vocabulary)
        if getattr(config, "is_encoder_decoder", False):
            ids["decoder_input_ids"] = ids["input_ids"]
    if main == "input_ids":
        return ids
    sizes = _signal_shape(main, config)
    if sizes is None:
        return {}
    ids.pop("input_ids", None)
    return ids | {main: Floats(sizes)}


def _signal_shape(main: str, config: Any) -> tuple[int, ...] | None:
    """Return the shape of images, of audio samples or of a spectrogram; None if it is unknown."""
    if main == "pixel_values":
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", None) or IMAGE_SIZE
        height, width = (size, size) if isinstance(size, int) else size
        return getattr(vision, "num_channels", 3), height, width
    bins = getattr(config, "num_mel_bins", None)
    if main == "input_values":
        return (AUDIO_SAMPLES,) if bins is None else (config.max_length, bins)
    if main == "input_features" and bins is not None:
        return bins, 2 * config.max_source_positions  # the stem's stride is 2
    return None


def build_python(name: str, arguments: dict[str, Value]) -> tuple[nn.Module, Example | None]:
    """Build a model with a user's callable.

    Args:
        name: `package.module:callable`. It returns a model, or a model and its example input.
        arguments: the keyword arguments of the callable.

    Returns:
        The model, and the example input or None.
    """
    returned = call_by_name(name, arguments)
    model, example = returned if isinstance(returned, tuple) and len(returned) == 2 else (returned, None)
    if isinstance(example, Tensor):
        example = (example,)
    elif isinstance(example, list):
        example = tuple(example)
    if not isinstance(model, nn.Module) or not isinstance(example, tuple | dict | None):
        raise DepthlrError(
            f"{name} returned {type(returned).__name__}: return a torch.nn.Module, or a module and its example input."
        )
    return model, example
