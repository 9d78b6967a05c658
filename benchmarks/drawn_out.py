"""The paper's own sweeps against the plain grid, whose cells were timed at three depths and are drawn out linearly.

python -m benchmarks.drawn_out        reads results/speed/h200.json and results/reproduce/main, runs nothing
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    timed = json.loads((RESULTS / "speed" / "h200.json").read_text())
    for name in ("cnn", "resnet", "vit"):
        swept = json.loads((RESULTS / "reproduce" / "main" / f"cifar10-{name}.paper.json").read_text())
        sizes, search = swept["study"]["model"]["sizes"], swept["study"]["search"]
        plain = {int(size): seconds for size, seconds in timed[name]["plain_cell_seconds"].items()}
        slope, start = np.polyfit(list(plain), list(plain.values()), 1)
        grid = sum(start + slope * size for size in sizes) * search["points"] * len(search["seeds"])
        took = swept["sweep_seconds"]
        print(f"{name} {sizes}: {swept['cells']} cells in {took:.0f} s; plain grid {grid:.0f} s; {grid / took:.1f}x")


if __name__ == "__main__":
    main()
