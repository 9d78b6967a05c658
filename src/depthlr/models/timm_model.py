"""Models of the timm package, untrained."""

from importlib import import_module
from typing import Any

from torch import nn

from depthlr.errors import DepthlrError, did_you_mean
from depthlr.models.example import Floats
from depthlr.models.torchvision_operators import import_torchvision
from depthlr.models.value import Value


def build_timm(name: str, arguments: dict[str, Value]) -> tuple[nn.Module, Floats]:
    """The model with random weights, and the image size timm records for it."""
    timm = _timm()
    if arguments.get("pretrained"):
        raise DepthlrError("pretrained weights are not wanted here: depthlr looks at models as they are initialised.")
    if not timm.is_model(name.partition(".")[0]):
        near = did_you_mean(name, timm.list_models())
        raise DepthlrError(f"timm has no model {name!r}{near}: see timm.list_models() for those it has.")
    try:
        model: nn.Module = timm.create_model(name, **arguments)
    except TypeError as error:
        raise DepthlrError(f"timm/{name} does not take these arguments: {error}.") from error
    return model, Floats(_image(model, arguments))


def _image(model: Any, arguments: dict[str, Value]) -> tuple[int, ...]:
    channels, height, width = model.pretrained_cfg["input_size"]
    if isinstance(in_chans := arguments.get("in_chans"), int):
        channels = in_chans
    size = arguments.get("img_size")
    if isinstance(size, int):
        height = width = size
    elif isinstance(size, tuple) and len(size) == 2:
        height, width = size
    return (channels, height, width)


def _timm() -> Any:
    try:
        import_torchvision()
        return import_module("timm")
    except ModuleNotFoundError as error:
        if error.name != "timm":
            raise DepthlrError(f"timm needs the package {error.name}: run pip install {error.name}.") from error
        raise DepthlrError("timm/ models need the timm package: run pip install 'depthlr[timm]'.") from error
    except RuntimeError as error:  # a torchvision built for another torch: "operator torchvision::nms does not exist"
        raise DepthlrError(
            f"timm could not be imported ({error}): install the torchvision that matches your torch."
        ) from error
