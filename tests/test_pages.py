"""Every code block of the pages is run, in the page's order and in one folder, at sizes that a test can afford.

Blocks of shell are run by bash, in which `depthlr`, `python`, `pip` and `make` only write down what they are given.
What they wrote down is then run in this process. Commands of `experiments` and those in `PARSED` are parsed by their
own parsers and not run. tests/pages.py holds the sizes, and the reasons.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tests.pages import COMPILED, GIVEN, PARSED, SMALLER
from tests.test_readme import readers_names
from torch import nn
from typer.core import TyperCommand
from typer.testing import CliRunner

import depthlr
from depthlr.cli.app import app
from depthlr.models.libraries import import_torchvision
from depthlr.study import parse_study

ROOT = Path(__file__).parents[1]
PAGES = [
    *("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"),
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.(?:py|toml))\b")  # the first line of a block that is a file
OUTPUT = ("", "text")  # blocks that show what a command printed

# Writes the arguments of each command to a file of their own, and what is piped into it.
SHELL = """set -e
note() {
    local place=$(printf '%s/%03d' "$NOTES" "$(ls "$NOTES" | wc -l)")
    printf '%s\\0' "$@" > "$place"
    if [ -p /dev/stdin ] || [ -f /dev/stdin ]; then cat > "$place.in"; else : > "$place.in"; fi
}
for name in depthlr python python3 pip make; do eval "$name() { note $name \\"\\$@\\"; }"; done
"""


class Net(nn.Sequential):
    """README's stack of layers, narrow."""

    def __init__(self, layers: int) -> None:
        hidden = [module for _ in range(layers) for module in (nn.Linear(8, 8), nn.ReLU())]
        super().__init__(*hidden, nn.Linear(8, 4))


def readers_names_on(page: str) -> dict[str, Any]:
    """What the Python of a page takes for granted."""
    names = {**readers_names(), "torch": torch, "depthlr": depthlr, "Net": Net, "__name__": "page"}
    if page == "docs/guide.md":
        from transformers import GPT2Config, GPT2LMHeadModel

        ids = torch.randint(16, (40, 6), generator=torch.Generator().manual_seed(0))
        names["gpt2"] = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_head=2, n_layer=1))
        names["token_loader"] = [{"input_ids": rows, "labels": rows} for rows in ids.split(4)]
        names["x"], names["y"] = next(iter(names["loader"]))
        names["model"], names["shallow"], names["deep"] = Net(2), Net(2), Net(4)
        names["rate"], names["fit"] = 1e-3, depthlr.fit_power_law([3, 5, 9], [0.3, 0.2, 0.1])
    if page == "docs/guides/start.md":
        import lightning
        from tests.integrations.tiny_gpt2 import make_trainer
        from tests.integrations.tiny_lightning import Data, LitMLP

        names |= {"lightning": lightning, "LitModel": LitMLP, "data": Data(), "model": Net(24), "TINY": TINY}
        names["make_trainer"] = lambda layers: make_trainer("runs", layers)
        names["optimizer"] = lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2)
        names["optimizers"] = muon_and_adamw
    return names


TINY = {"max_steps": 3, "accelerator": "cpu", "logger": False, "enable_checkpointing": False}


def muon_and_adamw(model: nn.Module, factor: float = 1.0) -> list[torch.optim.Optimizer]:
    """Matrices by Muon, the rest by AdamW in two groups."""
    matrices, others = ([p for p in model.parameters() if (p.dim() == 2) is wanted] for wanted in (True, False))
    groups = [{"params": others[:1], "lr": 1e-3 * factor}, {"params": others[1:], "lr": 3e-4 * factor}]
    return [torch.optim.Muon(matrices, lr=0.02 * factor), torch.optim.AdamW(groups)]


class Parsed(BaseException):
    """The arguments of a command were read, and it would begin."""


def parse_only(patch: pytest.MonkeyPatch) -> None:
    """Let every command of typer or argparse end once its arguments are read."""
    parse_args, invoke = argparse.ArgumentParser.parse_args, TyperCommand.invoke

    def parsed(self: Any, *given: Any, **options: Any) -> None:
        parse_args(self, *given, **options)
        raise Parsed

    def invoked(self: Any, context: Any) -> Any:
        if self.ignore_unknown_options:  # `depthlr reproduce` hands its arguments to the experiments
            return invoke(self, context)
        raise Parsed

    patch.setattr(argparse.ArgumentParser, "parse_args", parsed)
    patch.setattr(TyperCommand, "invoke", invoked)


class Page:
    """The blocks of a page in order, and the names that its Python has so far."""

    def __init__(self, page: str, folder: Path) -> None:
        text = (ROOT / page).read_text("utf-8")
        for written, smaller in SMALLER.get(page, {}).items():
            assert written in text, f"{page} no longer writes {written}"
            text = text.replace(written, smaller)
        self.page, self.folder, self.names = page, folder, readers_names_on(page)
        self.blocks = BLOCK.findall(text)
        self.not_run = {*PARSED.get(page, {}), *COMPILED.get(page, {})}

    def run(self) -> None:
        self.shell_block(GIVEN.get(self.page, ""))
        if self.page == "docs/guide.md":  # says that it uses the module of that page
            (mine,) = [text for _, text in Page("docs/sweep.md", self.folder).blocks if "cat > mine.py" in text]
            self.shell_block(mine.partition("cat > mine.toml")[0])
        for language, text in self.blocks:
            name = FILE.match(text)
            if name is not None:
                (self.folder / name[1]).write_text(text, "utf-8")
            if language in ("bash", "sh"):
                self.shell_block(text)
            elif language == "console":
                self.shell_block("\n".join(re.findall(r"^\$ (.*)$", text, re.MULTILINE)))
            elif language == "toml":
                parse_study(text)
            elif language == "yaml":
                assert isinstance(yaml.safe_load(text), dict)
            elif language == "python":
                self.python_block(text, name and name[1])
            else:
                assert language in OUTPUT, f"nothing is known of a block of {language}"
        assert not self.not_run, f"{self.page} no longer has {self.not_run}: tests/pages.py says that it is not run"

    def python_block(self, text: str, file: str | None) -> None:
        code = compile(text, file or self.page, "exec")
        if (words := next((words for words in COMPILED.get(self.page, {}) if words in text), None)) is not None:
            self.not_run.discard(words)
        elif file is not None:
            self.run_program([file])
        else:
            exec(code, self.names)

    def shell_block(self, script: str) -> None:
        notes = self.folder / ".notes"
        notes.mkdir()
        done = subprocess.run(
            ["bash", "-c", SHELL + script],
            cwd=self.folder,
            env={**os.environ, "NOTES": str(notes)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        for note in sorted(notes.glob("???")):
            program, *arguments = note.read_text("utf-8").rstrip("\0").split("\0")
            getattr(self, f"run_{program.removesuffix('3')}")(arguments, note.with_suffix(".in").read_text("utf-8"))
        for note in notes.iterdir():
            note.unlink()
        notes.rmdir()

    def run_depthlr(self, arguments: list[str], given: str) -> None:
        command = " ".join(["depthlr", *arguments])
        found = [begin for begin in PARSED.get(self.page, {}) if command.startswith(begin)]
        with pytest.MonkeyPatch.context() as patch:
            if found:
                self.not_run.discard(found[0])
                parse_only(patch)
            try:
                done = CliRunner().invoke(app, arguments, input=given)
            except Parsed:
                return
        assert done.exit_code == 0, f"{command}\n{done.output}\n{done.exception}"
        assert not found, f"{command} ended before its arguments were read"

    def run_python(self, arguments: list[str], given: str) -> None:
        if arguments[0] == "-":
            exec(compile(given, self.page, "exec"), {"__name__": "__main__"})
            return
        assert arguments[:1] == ["-m"], f"{shlex.join(arguments)} is not run"
        with pytest.MonkeyPatch.context() as patch:
            parse_only(patch)
            patch.setattr(sys, "argv", arguments[1:])
            with contextlib.suppress(Parsed):  # without arguments, some list what there is, and end
                runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)

    def run_pip(self, arguments: list[str], given: str) -> None:
        assert arguments[0] == "install"  # another test knows the extras

    def run_make(self, arguments: list[str], given: str) -> None:
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        assert set(arguments) <= set(targets)

    def run_program(self, arguments: list[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_extras_of_the_pages_are_those_of_the_package() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])
    assert {"timm", "hf", "lightning", "ray", "slurm", "plots", "images", "docs"} <= extras
    named = {page: re.findall(r"(?:depthlr|\.)\[([a-z,]+)\]", (ROOT / page).read_text("utf-8")) for page in PAGES}
    assert named["README.md"]
    for page, found in named.items():
        assert {one for text in found for one in text.split(",")} <= extras, page


def test_glue_is_at_most_five_lines() -> None:
    """The table on the first guide counts the lines that each situation adds to a script."""
    page = (ROOT / "docs/guides/start.md").read_text("utf-8")
    counted = [int(lines) for lines in re.findall(r"^\| .* \| (\d) \|", page, re.MULTILINE)]
    blocks = [text for _, text in BLOCK.findall(page)]
    assert [len([line for line in text.splitlines() if line]) for text in blocks] == counted
    assert max(counted) <= 5


def test_every_page_that_is_changed_or_not_run_exists() -> None:
    assert {*SMALLER, *GIVEN, *PARSED, *COMPILED} <= set(PAGES)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, tmp_path, monkeypatch, timm_module) -> None:
    import_torchvision()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})  # sweeps train in this process
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # for `python` in a command
    monkeypatch.setenv("DEPTHLR_CACHE", str(tmp_path / "cache"))
    Page(page, tmp_path).run()
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]
