"""Exponent over effective depth of the rate at which the first step has mean energy 1, at initialization, no training.

python -m experiments.speed exponents                  # two CPU cores: about four minutes
python -m experiments.speed exponents --markdown       # the table of docs/theory.md
"""

from __future__ import annotations

import argparse
from statistics import median
from typing import Any

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


def energies(spec: str, options: dict[str, Any], seeds: int, device: str) -> list[Energy]:
    """Energies of one model under several initializations."""
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
    parser.add_argument("--plot")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    head = ("model", "effective depths", *MEASURES, "spread over seeds, decades")
    print(
        "| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|"
        if options.markdown
        else "  ".join(f"{c:<32}" for c in head)
    )
    rates: dict[str, tuple[list[int], list[float]]] = {}
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
        rates[name] = depths[:: options.seeds], [median(e.rate for e in found[size]) for size in sizes]
    if options.plot:
        draw(rates, options.plot)


def draw(rates: dict[str, tuple[list[int], list[float]]], path: str) -> None:
    """Rate for mean energy 1 against effective depth, each family relative to its shallowest model."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]
    shown = ["MLP, ReLU", "CNN, circular", "ResNet, x K^-1/2", "transformer, post-LN", "transformer, pre-LN"]
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, colour, marker in zip(shown, colours, "osD^v", strict=True):
        depths, values = rates[name]
        axes.plot(depths, [v / values[0] for v in values], marker=marker, color=colour, label=name, lw=1.5, ms=5)
    line = [6, 50]
    axes.plot(line, [(d / 6) ** -1.5 for d in line], color="0.4", ls="--", label="law, depth^(-3/2)")
    axes.set(xscale="log", yscale="log", xlabel="effective depth", ylabel="rate for mean energy 1, relative")
    axes.set_xticks([5, 10, 20, 50], labels=["5", "10", "20", "50"])
    axes.tick_params(axis="x", which="minor", labelbottom=False)
    axes.set_title("How far one SGD step may go, measured at initialization", loc="left", fontsize=11)
    axes.grid(alpha=0.25, which="both", lw=0.5)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)


def _spread(values: list[float]) -> float:
    return float(torch.tensor(values).log10().std())
