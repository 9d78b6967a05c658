"""`depthlr measure MODEL`: update energies, and the rate they imply."""

from __future__ import annotations

from statistics import median

from depthlr.cli.measurement import Measurement, measurement_data, note_redrawn, prepare_measurement, progress_bar
from depthlr.cli.options import (
    DEFAULT_LOSS,
    RANDOM,
    BatchSize,
    DataName,
    Folder,
    Input,
    Json,
    LossName,
    Model,
    OptimizerName,
    OwnInit,
    SeedsOption,
    check_seeds,
)
from depthlr.cli.output import print_json, print_note, print_table
from depthlr.energy.energy import EnergyOverSeeds, update_energy_over_seeds
from depthlr.formatting import rate_text


def measure(
    model: Model,
    optimizer: OptimizerName = "sgd",
    data: DataName = RANDOM,
    loss: LossName = DEFAULT_LOSS,
    folder: Folder = None,
    batch: BatchSize = 64,
    seeds: SeedsOption = 3,
    input: Input = None,
    own_init: OwnInit = False,
    json: Json = False,
) -> None:
    """Measure the update energy of one optimizer step at every unit."""
    given = prepare_measurement(
        model, measurement_data(data, batch, loss, folder=folder, input=input), own_init=own_init
    )
    found = measure_energies(given, seeds, optimizer)
    note_redrawn(given)
    units = [u.unit for u in found.units]
    energies = [median(e.units[i].energy for e in found.energies) for i in range(len(units))]
    mean, readout = found.mean_energy, found.readout
    if json:
        print_json(
            {
                "model": model,
                "optimizer": optimizer,
                "data": data,
                "loss": loss,
                "batch": batch,
                "seeds": seeds,
                "rate": found.rate,
                "mean_energy": vars(mean),
                "readout_energy": vars(readout),
                "units": [
                    {"kind": u.kind, "role": u.role, "module": u.path, "last_weight": u.branch, "energy": e}
                    for u, e in zip(units, energies, strict=True)
                ],
            }
        )
        return
    rows = [
        (i, u.kind, u.role, f"{e:.3e}", u.branch or u.path)
        for i, (u, e) in enumerate(zip(units, energies, strict=True), 1)
    ]
    print_table(("unit", "kind", "role", "energy at rate 1", "last weight"), rows, title=f"{model}, {optimizer}")
    print(f"mean energy {mean.median:.3e}, readout energy {readout.median:.3e} at rate 1 (medians of {seeds} seeds)")
    print(f"mean energy 1 at rate {rate_text(found.rate)}")
    print_note(
        f"spread over seeds: {mean.sd_log10:.2f} decades of mean energy, {readout.sd_log10:.2f} of readout energy"
    )


def measure_energies(given: Measurement, seeds: int, optimizer: str) -> EnergyOverSeeds:
    """Measure the energies of a model under several initialisations."""
    check_seeds(seeds)
    with progress_bar():
        return update_energy_over_seeds(given.build, range(seeds), given.batches[0], given.loss_fn, optimizer)
