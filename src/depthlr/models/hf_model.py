"""Models of the transformers package, untrained, from a model type such as gpt2 and the arguments of its config."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from torch import nn

from depthlr.errors import DepthlrError, did_you_mean
from depthlr.models.example import Floats, Ids, InputShape
from depthlr.models.torchvision_operators import import_torchvision
from depthlr.models.value import Value

# Masked before causal: bert and its kin are listed under both, and are encoders unless told otherwise.
HEADS = (
    "AutoModelForMaskedLM",
    "AutoModelForCausalLM",
    "AutoModelForImageClassification",
    "AutoModelForAudioClassification",
    "AutoModelForSequenceClassification",
    "AutoModel",
)
SEQUENCE = 16  # long enough to see every operation
IMAGE = 224  # of convolutional models, which take any size
SAMPLES = 8000  # half a second of speech


def build_hf(name: str, arguments: dict[str, Value]) -> tuple[nn.Module, Mapping[str, InputShape]]:
    """The model with random weights and a head, and the inputs its forward wants, by name."""
    transformers = _transformers()
    config = _config(transformers, name, arguments)
    heads: tuple[str, ...] = HEADS
    if getattr(config, "is_encoder_decoder", False):
        heads = ("AutoModelForSeq2SeqLM", "AutoModelForSpeechSeq2Seq", *HEADS)
    elif getattr(config, "is_decoder", False):
        heads = ("AutoModelForCausalLM", *HEADS)
    for head in heads:
        auto = getattr(transformers, head)
        if type(config) in auto._model_mapping:
            model = _from_config(auto, config)
            return model, _inputs(config, main_input_of(model))
    raise DepthlrError(
        f"transformers cannot build {name} by itself: write a callable that does, package.module:callable."
    )


def main_input_of(model: nn.Module) -> str:
    name = getattr(model, "main_input_name", "input_ids")
    return name if isinstance(name, str) else str(name[0])  # OneFormer has two


def _from_config(auto: Any, config: Any) -> nn.Module:
    try:
        kinds = auto._model_mapping[type(config)]
        if isinstance(kinds, tuple) and not config.architectures:  # with a teacher or without: by that name it chooses
            config.architectures = [kinds[0].__name__]
        model: nn.Module = auto.from_config(config)
    except ModuleNotFoundError as error:  # raised for whatever goes wrong while the model's file is imported
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        hint = (
            "install the torchvision that matches your torch, or none" if "torchvision" in str(root) else "install it"
        )
        raise DepthlrError(f"transformers could not load {config.model_type} ({root}): {hint}.") from error
    return model


def _config(transformers: Any, name: str, arguments: dict[str, Value]) -> Any:
    if name not in transformers.CONFIG_MAPPING:
        near = did_you_mean(name, transformers.CONFIG_MAPPING.keys())
        raise DepthlrError(f"transformers has no model type {name!r}{near}: write one such as hf/gpt2 or hf/llama.")
    config_class = transformers.CONFIG_MAPPING[name]
    default = config_class()
    for key in arguments:
        # A config swallows any keyword, so that a misspelt n_layers would silently build the default depth.
        if not hasattr(default, key):
            near = did_you_mean(key, default.to_dict())
            raise DepthlrError(
                f"The config of {name} has no {key!r}{near}: see {config_class.__name__} for those it has."
            )
    try:
        config = config_class(**{key: list(v) if isinstance(v, tuple) else v for key, v in arguments.items()})
    except (TypeError, ValueError) as error:
        raise DepthlrError(f"The config of {name} does not take these arguments: {error}") from error
    if hasattr(config, "use_cache") and "use_cache" not in arguments:
        config.use_cache = False  # the key-value cache serves generation, and only clutters a trace
    if hasattr(config, "_experts_implementation") and "_experts_implementation" not in arguments:
        config._experts_implementation = "batched_mm"  # the grouped kernel has no forward-mode derivative
    return config


def _inputs(config: Any, main: str) -> Mapping[str, InputShape]:
    """What the model's main input is, and a decoder's beside it; nothing where its size is not known."""
    text = config.get_text_config()
    vocabulary = getattr(text, "vocab_size", None)
    ids: dict[str, InputShape] = {}
    if isinstance(vocabulary, int):
        longest = getattr(text, "max_position_embeddings", None) or SEQUENCE
        ids["input_ids"] = Ids(min(SEQUENCE, longest) if longest > 0 else SEQUENCE, vocabulary)  # XLNet's: -1, no limit
        if getattr(config, "is_encoder_decoder", False):
            ids["decoder_input_ids"] = ids["input_ids"]
    if main == "input_ids":
        return ids
    sizes = _signal(main, config)
    return {} if sizes is None else {name: s for name, s in ids.items() if name != "input_ids"} | {main: Floats(sizes)}


def _signal(main: str, config: Any) -> tuple[int, ...] | None:
    """The sizes of images, of speech or of its spectrum."""
    if main == "pixel_values":
        vision = getattr(config, "vision_config", config)
        size = getattr(vision, "image_size", None) or IMAGE
        height, width = (size, size) if isinstance(size, int) else size
        return getattr(vision, "num_channels", 3), height, width
    bins = getattr(config, "num_mel_bins", None)
    if main == "input_values":
        return (SAMPLES,) if bins is None else (config.max_length, bins)
    if main == "input_features" and bins is not None:
        return bins, 2 * config.max_source_positions  # the stem's stride is 2
    return None


def _transformers() -> Any:
    try:
        import_torchvision()
        return import_module("transformers")
    except ModuleNotFoundError as error:
        raise DepthlrError("hf/ models need the transformers package: run pip install 'depthlr[hf]'.") from error
