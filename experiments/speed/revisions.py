"""This checkout against an older revision: CPU seconds of the same calls, each in a process of its own, in turn.

    python -m experiments.speed revisions --rev 9d4bdee
    python -m experiments.speed revisions --rev HEAD~10 --only "update_energy, ViT" --repeats 9

A change of the machine's speed meets both sides alike, because their processes take turns. CPU time is what a process
and its children used, on one thread, so that other work on the machine counts less than in wall time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from experiments.house import revision
from experiments.pages import markdown_table

ROOT = Path(__file__).parents[2]
LOSS = "import torch, depthlr\nfrom torch.nn.functional import cross_entropy\nfrom depthlr.models.build import build\n"
BATCH = "x, y = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))\nbatches = [(x, y)] * 5\n"
STUDY = """
import sys, tempfile
from depthlr.cli import main
folder = tempfile.mkdtemp()
sys.argv = ["depthlr", "sweep", "--model", "mlp?width=16", "--sizes", "2,4", "--steps", "20", "--batch", "16",
            "--out", folder + "/s.sqlite"]
main()
"""
JOBS = {  # the same text on both sides: public names that both have
    "import depthlr": "import depthlr",
    "depthlr --help": "import sys; sys.argv = ['depthlr', '--help']\nfrom depthlr.cli import main; main()",
    "depthlr transfer, two depths": (
        "import sys; sys.argv = 'depthlr transfer --rate 1e-3 --from 10 --to 20'.split()\n"
        "from depthlr.cli import main; main()"
    ),
    "effective_depth, ResNet of 64 blocks": (
        LOSS
        + "model, example = build('resnet?blocks=64&width=16')\n"
        + "for _ in range(5): depthlr.effective_depth(model, example)"
    ),
    "init_, ViT of 12 blocks": (
        LOSS + "model, example = build('vit?blocks=12&width=192')\nfor _ in range(3): depthlr.init_(model, example)"
    ),
    "update_energy, ResNet of 8 blocks": (
        LOSS
        + BATCH
        + "model, _ = build('resnet?blocks=8&width=16')\n"
        + "for _ in range(3): depthlr.update_energy(model, batches[0], cross_entropy)"
    ),
    "update_energy, ViT of 8 blocks": (
        LOSS
        + BATCH
        + "model, _ = build('vit?blocks=8&width=96')\n"
        + "for _ in range(3): depthlr.update_energy(model, batches[0], cross_entropy, 'adamw')"
    ),
    "persistent_energy, ViT of 4 blocks": (
        LOSS
        + BATCH
        + "model, _ = build('vit?blocks=4&width=96')\n"
        + "depthlr.persistent_energy(model, [(x, y)] * 21, cross_entropy)"
    ),
    "depthlr sweep, MLP of two sizes": STUDY,
}


def cpu_seconds(code: str, source: Path, work: Path) -> float:
    """CPU time of a fresh process that runs `code` with the package of `source`."""
    environment = os.environ | {"PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": "1"}
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=work, capture_output=True, text=True, check=False
    )
    after = os.times()
    if done.returncode:
        raise SystemExit(f"error: {source} failed:\n{done.stderr}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def compare(code: str, older: Path, repeats: int, work: Path) -> tuple[float, float]:
    """Median CPU seconds before and after."""
    seconds: dict[Path, list[float]] = {older: [], ROOT: []}
    for source in seconds:
        cpu_seconds(code, source, work)  # compiles the modules
    for _ in range(repeats):
        for source, found in seconds.items():
            found.append(cpu_seconds(code, source, work))
    return median(seconds[older]), median(seconds[ROOT])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rev", required=True, help="the older revision")
    parser.add_argument("--only", action="append", help=f"of: {'; '.join(JOBS)}")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as work:
        older = revision(options.rev, Path(folder))
        for name in options.only or JOBS:
            before, after = compare(JOBS[name], older, options.repeats, Path(work))
            rows.append([name, f"{before:.2f}", f"{after:.2f}", f"{after / before:.2f}"])
            print(f"{name}: {before:.2f} s, {after:.2f} s", file=sys.stderr, flush=True)
    print(markdown_table(["CPU seconds of a process", options.rev, "this checkout", "ratio"], rows))
