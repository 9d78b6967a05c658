"""README's Python runs as it stands, given the names that a reader has: a model class, a loader, a loss."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

import depthlr

README = Path(__file__).parents[1] / "README.md"


class Net(nn.Sequential):
    """A stack of layers of one width, as PyTorch initializes it."""

    def __init__(self, layers: int, width: int = 128) -> None:
        hidden = [module for _ in range(layers) for module in (nn.Linear(width, width), nn.ReLU())]
        super().__init__(nn.Linear(8, width), nn.ReLU(), *hidden, nn.Linear(width, 4))


def readers_names() -> dict[str, object]:
    """What README takes for granted."""
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.randn(640, 8, generator=generator), torch.randint(4, (640,), generator=generator)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, targets), batch_size=16)
    return {"Net": Net, "example": inputs[:2], "loader": loader, "loss_fn": nn.functional.cross_entropy}


def run_python(text: str) -> None:
    """Run every block of Python of a page."""
    names = readers_names()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)


def test_readmes_python_runs_as_pasted(capsys) -> None:
    run_python(README.read_text("utf-8"))
    out = capsys.readouterr().out
    assert "effective depth 18" in out
    assert "constant: depth 6 -> 18" in out


if __name__ == "__main__":  # make test-wheel: in a fresh environment, from the wheel
    run_python(README.read_text("utf-8"))
    print(f"README's Python runs with depthlr from {Path(depthlr.__file__).parent}")
