"""`depthlr measure MODEL`: update energies, and the rate they imply."""

from __future__ import annotations

from statistics import median

from depthlr.cli.measurement import (
    Measurement,
    MeasurementData,
    measurement_data,
    measurement_progress,
    prepare_measurement,
)
from depthlr.cli.options import MEASUREMENT, Json, MeasurementOptions, Model, expand_options
from depthlr.cli.output import count_text, print_json, print_note, print_table
from depthlr.energy.energy import EnergyOverSeeds, update_energy_over_seeds
from depthlr.formatting import rate_text


@expand_options
def measure_command(model: Model, options: MeasurementOptions = MEASUREMENT, json: Json = False) -> None:
    """Measure the update energy of one optimizer step at every unit."""
    on = measurement_data(options)
    given = prepare_measurement(model, on, draws=1)
    with measurement_progress(options, model):
        found = measure_energies(given, on)
    mean, readout = found.mean_energy, found.readout
    measured = []
    for index, unit in enumerate(found.units):
        measured.append((unit.unit, median(energy.units[index].energy for energy in found.energies)))
    if json:
        print_json(
            {
                "model": model,
                "optimizer": options.optimizer,
                "data": options.data,
                "loss": options.loss,
                "batch": options.batch,
                "seeds": options.seeds,
                "rate": found.rate,
                "mean_energy": vars(mean),
                "readout_energy": vars(readout),
                "units": [
                    {"kind": u.kind, "role": u.role, "module": u.path, "last_weight": u.branch, "energy": energy}
                    for u, energy in measured
                ],
            }
        )
        return
    rows = [(i, u.kind, u.role, f"{energy:.3e}", u.branch or u.path) for i, (u, energy) in enumerate(measured, 1)]
    columns = ("unit", "kind", "role", "energy at rate 1", "last weight")
    print_table(columns, rows, title=f"{model}, {options.optimizer}")
    medians = f"mean energy {mean.median:.3e}, readout energy {readout.median:.3e}"
    print(f"{medians} at rate 1 (medians of {count_text(options.seeds, 'seed')})")
    print(f"mean energy 1 at rate {rate_text(found.rate)}")
    print_note(
        f"spread over seeds: {mean.sd_log10:.2f} decades of mean energy, {readout.sd_log10:.2f} of readout energy"
    )


def measure_energies(given: Measurement, on: MeasurementData) -> EnergyOverSeeds:
    """Measure the energies of a model under several initializations.

    Args:
        given: The model and its batches, of which the first is used.
        on: The loss, the optimizer and the number of initializations.
    """
    options = on.options
    return update_energy_over_seeds(given.build, range(options.seeds), given.batches[0], on.loss_fn, options.optimizer)
