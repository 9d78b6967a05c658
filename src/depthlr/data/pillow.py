"""Pillow, where it is installed: only images need it."""

from types import ModuleType

from depthlr.errors import DepthlrError


def pillow_image() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise DepthlrError("Reading images needs Pillow: run pip install depthlr[images].") from error
    return Image
