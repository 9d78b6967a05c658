"""The code of the guides runs, at sizes that a test can afford."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from depthlr.cli.app import app
from depthlr.models.libraries import import_torchvision

GUIDES = Path(__file__).parents[1] / "docs" / "guides"
# What a guide writes, and what the test writes in its place.
SMALLER = {
    "hf-trainer": {
        "50257, (4096, 1024)": "64, (256, 8)",
        "n_embd=768, n_head=12": "n_embd=16, n_head=2, vocab_size=64, n_positions=8, use_cache=False",
        "layers=24": "layers=6",
        "steps=20000": "steps=4",
        '        "runs",\n': '        "runs", use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,\n',
        "per_device_train_batch_size=8": "per_device_train_batch_size=2",
    },
    "timm-vit": {
        "(512, 3, 224, 224)": "(64, 3, 32, 32)",
        "(512,)": "(64,)",
        "batch_size=16": "batch_size=4",
        "depth=depth)": "depth=depth, img_size=32, embed_dim=24, num_heads=3)",
        "vit(12)": "vit(6)",
    },
    "lightning": {
        "LitMLP(24)": "LitMLP(6)",
        "2048": "256",
        "max_steps=1000": 'max_steps=4, accelerator="cpu", logger=False, enable_checkpointing=False',
    },
    "own-script": {"4096": "512", "Net(24)": "Net(8)"},
    "which-rule": {},
    "coming-from-mup": {"2048": "256", "256, 64\n": "16, 8\n"},
}


def blocks(name: str, language: str) -> list[str]:
    text = (GUIDES / f"{name}.md").read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_every_guide_is_run() -> None:
    assert {path.stem for path in GUIDES.glob("*.md")} == set(SMALLER)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMALLER)
def test_the_code_of_a_guide_runs(name: str, tmp_path, monkeypatch) -> None:
    import_torchvision()
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(name, "python"))
    assert code
    for written, smaller in SMALLER[name].items():
        assert written in code, f"the guide no longer writes {written}"
        code = code.replace(written, smaller)
    exec(compile(code, f"{name}.md", "exec"), {"__name__": name})


@pytest.mark.parametrize("name", SMALLER)
def test_the_commands_of_a_guide_run(name: str, timm_module) -> None:
    for command in "".join(blocks(name, "bash")).splitlines():
        program, *arguments = shlex.split(command)
        assert program == "depthlr"
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output


def test_links_of_the_guides_lead_somewhere() -> None:
    for page in GUIDES.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
