"""Models named by text: `cnn?layers=8`, `timm/resnet50`, `hf/gpt2?n_layer=12`, `package.module:callable?x=1`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from depthlr.errors import DepthlrError, did_you_mean
from depthlr.models.zoo import ZOO
from depthlr.python_name import is_python_name
from depthlr.spec_text import Value, format_value, parse_value, split_spec

NAME = re.compile(r"(?:(timm|hf)/)?([\w.-]+)")


@dataclass(frozen=True)
class ModelSpec:
    """A model as family (zoo, timm, hf or python), name in that family, and arguments. `str` returns the text."""

    family: str
    name: str
    arguments: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise an error if a zoo model does not exist or does not take its arguments.

        Models of other families are checked when they are built.
        """
        if self.family != "zoo":
            return
        if self.name not in ZOO:
            raise DepthlrError(
                f"There is no model {self.name!r}{did_you_mean(self.name, ZOO)}: choose from {', '.join(ZOO)}, "
                "or write timm/NAME, hf/TYPE or package.module:callable."
            )
        known = ZOO[self.name].defaults
        for key in self.arguments:
            if key not in known:
                raise DepthlrError(
                    f"{self.name} takes no argument {key!r}{did_you_mean(key, known)}: it takes {', '.join(known)}."
                )

    def __str__(self) -> str:
        # Sorted, so that equal specs have equal texts: the text is a key in the store of a study.
        arguments = "&".join(f"{key}={format_value(value)}" for key, value in sorted(self.arguments.items()))
        path = f"{self.family}/{self.name}" if self.family in ("timm", "hf") else self.name
        return f"{path}?{arguments}" if arguments else path

    def __hash__(self) -> int:
        return hash((self.family, self.name, frozenset(self.arguments.items())))

    def with_arguments(self, **changes: Value) -> "ModelSpec":
        """Return the same model with some arguments replaced.

        Args:
            **changes: the arguments to replace or to add, such as `layers=8`.
        """
        return ModelSpec(self.family, self.name, {**self.arguments, **changes})


def parse_spec(text: str) -> ModelSpec:
    """Read the text of a model.

    Args:
        text: what the user wrote, such as `cnn?layers=8`.

    Raises:
        DepthlrError: the text is malformed, or names a zoo model or argument that does not exist.
    """
    path, texts = split_spec(text.strip(), example="layers=8")
    match = NAME.fullmatch(path)
    if is_python_name(path):
        family, name = "python", path
    elif match is not None:
        family, name = match[1] or "zoo", match[2]
    else:
        raise DepthlrError(
            f"The model {path!r} is not understood: write a zoo name such as cnn, timm/NAME, hf/TYPE "
            "or package.module:callable."
        )
    return ModelSpec(family, name, {key: parse_value(value) for key, value in texts.items()})
