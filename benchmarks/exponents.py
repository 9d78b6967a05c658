"""Exponent over effective depth of the rate at which the first step has mean energy 1, at initialisation, no training.

python benchmarks/exponents.py                  # two CPU cores: about four minutes
python benchmarks/exponents.py --markdown       # the table of docs/theory.md
"""

from __future__ import annotations

import argparse
from statistics import median

import torch
import torch.nn.functional as F

from depthlr import Energy, fit_power_law, update_energy
from depthlr.data import digits_batch
from depthlr.init import apply_plan, init_plan
from depthlr.models.build import build

SIZES = (4, 6, 8, 12, 16, 24, 32, 48)
BLOCKS = (2, 3, 4, 6, 8, 12, 16, 24)
TASKS = {
    "MLP, ReLU": ("mlp?width=256&layers={}", SIZES, {}),
    "CNN, circular": ("cnn?width=64&layers={}", SIZES, {}),
    "ResNet, x K^-1/2": ("resnet?width=64&blocks={}", SIZES, {}),
    "ResNet, two-layer branches, last": ("resnet?width=64&branch_layers=2&blocks={}", SIZES, {}),
    "ResNet, two-layer branches, each": (
        "resnet?width=64&branch_layers=2&blocks={}",
        SIZES,
        {"branch_scale": "each"},
    ),
    "transformer, post-LN": ("vit?width=128&heads=4&patch=2&norm=post&blocks={}", BLOCKS, {}),
    "transformer, pre-LN": ("vit?width=128&heads=4&patch=2&norm=pre&blocks={}", BLOCKS, {}),
    "transformer, pre-LN, each x K^-1/2": (
        "vit?width=128&heads=4&patch=2&norm=pre&blocks={}",
        BLOCKS,
        {"branch_scale": "each"},
    ),
}
MEASURES = {
    "mean energy": lambda e: e.mean,
    "readout energy": lambda e: e.readout,
    "head averaged in": lambda e: sum(u.energy for u in e.units) / len(e.units),
}


def energies(spec: str, options: dict[str, str], seeds: int, device: str) -> list[Energy]:
    """Energies of one model under several initialisations."""
    model, _ = build(spec, input="1x8x8")
    plan = init_plan(model, digits_batch(64, 0)[0], **options)
    found = []
    for seed in range(seeds):
        x, y = digits_batch(64, seed)
        apply_plan(model.cpu(), plan, torch.Generator().manual_seed(seed))
        found.append(update_energy(model.to(device), (x, y), F.cross_entropy))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    head = ("model", "effective depths", *MEASURES, "spread over seeds, decades")
    print(
        "| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|"
        if options.markdown
        else "  ".join(f"{c:<32}" for c in head)
    )
    for name, (pattern, sizes, init_options) in TASKS.items():
        found = {size: energies(pattern.format(size), init_options, options.seeds, device) for size in sizes}
        depths = [len(found[size][0].units) for size in sizes for _ in range(options.seeds)]
        cells = []
        for measure in MEASURES.values():
            fit = fit_power_law(depths, [measure(e) ** -0.5 for size in sizes for e in found[size]])
            low, high = fit.interval
            cells.append(f"{fit.slope:.2f} ({low:.2f} to {high:.2f})")
        spread = median(_spread([e.mean for e in found[size]]) for size in sizes)
        row = (name, f"{depths[0]} to {depths[-1]}", *cells, f"{spread:.2f}")
        print("| " + " | ".join(row) + " |" if options.markdown else "  ".join(f"{c:<32}" for c in row), flush=True)


def _spread(values: list[float]) -> float:
    return float(torch.tensor(values).log10().std())


if __name__ == "__main__":
    main()
