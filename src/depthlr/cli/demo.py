"""`depthlr demo`: depth, energy and transfer on the embedded digits."""

from __future__ import annotations

from depthlr.cli.measure import measured_task
from depthlr.cli.output import print_note, print_table, rate_text
from depthlr.cli.task import Data, task
from depthlr.law.fit import fit_power_law
from depthlr.law.power import transfer
from depthlr.models.build import build
from depthlr.trace.depth import effective_depth

FAMILIES = {
    "cnn": ("cnn?width=16&layers={}", (3, 4, 6, 8, 12, 16)),
    "resnet": ("resnet?width=16&blocks={}", (3, 4, 6, 8, 12, 16)),
    "vit": ("vit?width=32&heads=4&patch=2&blocks={}", (2, 4, 6, 8)),
}
SEEDS = 5


def demo() -> None:
    """Show depth, energy and transfer on the embedded digits."""
    print_note("1,797 handwritten digits, batches of 64, one SGD step, no training; the numbers are medians of 5 seeds")
    for family, (pattern, sizes) in FAMILIES.items():
        specs = [pattern.format(size) for size in sizes]
        depths = [effective_depth(*build(spec, input="1x8x8", meta=True)).total for spec in specs]
        print_note(f"measuring {family} at effective depths {', '.join(map(str, depths))}")
        found = [measured_task(task(spec, Data.digits, 64), SEEDS, "sgd") for spec in specs]
        first = found[0].rate
        rows = [
            (
                spec,
                depth,
                f"{energy.mean_energy.median:.2e}",
                f"{energy.readout.median:.2e}",
                rate_text(energy.rate),
                rate_text(transfer(first, depths[0], depth)),
            )
            for spec, depth, energy in zip(specs, depths, found, strict=True)
        ]
        columns = ("model", "depth", "mean energy", "readout energy", "rate for energy 1", "law from the first row")
        print_table(columns, rows)
        rates = [e.rate for over in found for e in over.energies]
        fit = fit_power_law([d for d in depths for _ in range(SEEDS)], rates)
        shallow, deep = found[0].rate, found[-1].rate
        print(f"rate for energy 1 over effective depth: {fit}")
        law = transfer(1.0, depths[0], depths[-1])
        print(f"from depth {depths[0]} to {depths[-1]}: measured x {deep / shallow:.2f}, law x {law:.2f}\n")
