"""A user's own model, `package.module:callable`."""

from torch import Tensor, nn

from depthlr.errors import DepthlrError
from depthlr.models.example import Example
from depthlr.models.value import Value
from depthlr.python_name import called


def build_python(name: str, arguments: dict[str, Value]) -> tuple[nn.Module, Example | None]:
    """What the callable returns: a model, or a model and its example input."""
    made = called(name, arguments)
    model, example = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if isinstance(example, Tensor):
        example = (example,)
    elif isinstance(example, list):
        example = tuple(example)
    if not isinstance(model, nn.Module) or not isinstance(example, tuple | dict | None):
        raise DepthlrError(
            f"{name} returned {type(made).__name__}: return a torch.nn.Module, or a module and its example input."
        )
    return model, example
