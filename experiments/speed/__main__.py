"""python -m experiments.speed [NAME [OPTIONS]]"""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path

NAMES = (
    "bookkeeping",
    "depth",
    "energy",
    "exhaustive",
    "exponents",
    "peers",
    "precision",
    "report",
    "scale",
    "revisions",
    "search",
    "sweep",
)


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: python -m experiments.speed NAME [OPTIONS]\n")
        for name in NAMES:
            print(f"{name:<13}{summary(name)}")
        return
    name, *options = arguments
    if name not in NAMES:
        sys.exit(f"error: There is no benchmark {name!r}: choose one of {', '.join(NAMES)}.")
    sys.argv = [f"python -m experiments.speed {name}", *options]
    import_module(f"experiments.speed.{name}").main()


def summary(name: str) -> str:
    """The first line of a module's docstring, read without importing torch."""
    source = Path(__file__).with_name(f"{name}.py").read_text("utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


if __name__ == "__main__":
    main(sys.argv[1:])
