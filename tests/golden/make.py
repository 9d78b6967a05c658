"""What the commands print for fixed inputs, written to this folder.

python -m tests.golden.make             write every output again; `git diff tests/golden` then shows what changed
python -m tests.golden.make --study     first train study.toml again and replace study.db, the stored study

`study.db` is a finished study (SQLite; the name keeps it out of .gitignore). It was written by an older version, and
later versions must read it: replace it only when the format of the store changes on purpose.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

FOLDER = Path(__file__).parent
INPUTS = ("study.db", "study.toml", "optima.csv")
SMALL, DEEP = "mlp?width=8&layers=3", "mlp?width=8&layers=6"
DIGITS = ("--data", "digits", "--batch", "32", "--seeds", "2", "--json")
TRANSFER = ("transfer", "--rate", "0.1", "--json")
# The file that holds the output, and the command that prints it.
COMMANDS: dict[str, tuple[str, ...]] = {
    "depth-cnn.json": ("depth", "cnn?layers=3&width=4", "--json"),
    "depth-resnet.json": ("depth", "resnet?blocks=3&width=4", "--json"),
    "depth-vit.json": ("depth", "vit?blocks=2&width=8&heads=2", "--json"),
    "depth-gpt.json": ("depth", "gpt?blocks=2&width=8&heads=2", "--json"),
    "depth-mlp.txt": ("depth", SMALL),
    "transfer-law.json": (*TRANSFER, "--from", "10", "--to", "20"),
    "transfer-depth-mup.json": (*TRANSFER, "--from", "10", "--to", "20", "--rule", "depth-mup"),
    "transfer-models.json": (*TRANSFER, "--from", SMALL, "--to", DEEP),
    "transfer-measured.json": (*TRANSFER, "--from", SMALL, "--to", DEEP, "--rule", "measured", *DIGITS),
    "transfer-am-mup.json": (*TRANSFER, "--from", SMALL, "--to", DEEP, "--rule", "am-mup", *DIGITS),
    "measure.json": ("measure", SMALL, *DIGITS),
    "measure-adam.json": ("measure", "vit?blocks=1&width=8&heads=2&patch=4", "--optimizer", "adam", *DIGITS),
    "suggest.json": ("suggest", SMALL, *DIGITS),
    "check.json": ("check", "mlp?width=8", "--vary", "layers", "--sizes", "2,4,8", *DIGITS),
    "fit-optima.json": ("fit", "optima.csv", "--at", "32", "--json"),
    "fit-study.json": ("fit", "study.db", "--json"),
    "fit-study-size.json": ("fit", "study.db", "--over", "size", "--json"),
    "export.csv": ("export", "study.db"),
    "export-times.csv": ("export", "study.db", "--times"),
    "export.json": ("export", "study.db", "--format", "json"),
    "report.html": ("report", "study.db", "--out", "-"),
    "report.md": ("report", "study.db", "--format", "markdown"),
    "report.json": ("report", "study.db", "--format", "json"),
    "sweep-finished.json": ("sweep", "study.db", "--json"),
}


def output(name: str) -> str:
    """What a command prints now; of a page without its style and its program, which are files of their own."""
    text = printed(*COMMANDS[name])
    return re.sub(r"<(style|script)>.*?</\1>", r"<\1></\1>", text, flags=re.DOTALL) if name.endswith(".html") else text


def printed(*arguments: str) -> str:
    """What `depthlr` prints on stdout for these arguments."""
    from depthlr.cli import main

    out = io.StringIO()
    with patch.object(sys, "argv", ["depthlr", *arguments]), redirect_stdout(out), redirect_stderr(io.StringIO()):
        try:
            main()
        except SystemExit as stop:
            if stop.code not in (None, 0, 1):  # `check` exits with 1 where a rate does not carry
                raise
    return out.getvalue()


@contextmanager
def inputs(folder: Path):
    """Run in a folder with copies of the inputs, in this process, on one core of the CPU."""
    for name in INPUTS:
        if (FOLDER / name).exists():
            shutil.copy(FOLDER / name, folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        with patch("torch.cuda.is_available", return_value=False), patch("os.sched_getaffinity", return_value={0}):
            yield
    finally:
        os.chdir(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", action="store_true", help="train study.toml again and replace study.db")
    options = parser.parse_args()
    with TemporaryDirectory() as folder, inputs(Path(folder)):
        if options.study:
            Path("study.db").unlink(missing_ok=True)
            printed("sweep", "study.toml", "--out", "study.db")
            shutil.copy("study.db", FOLDER)
        for name in COMMANDS:
            (FOLDER / name).write_text(output(name), "utf-8")


if __name__ == "__main__":
    main()
