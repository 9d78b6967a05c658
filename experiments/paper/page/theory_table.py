"""Exponents of energies at initialization, and what the paper says of GELU's q."""

from __future__ import annotations

from depthlr.init.gating import gating_factor
from depthlr.law.rules import LAW_EXPONENT
from experiments.pages import markdown_table
from experiments.paper.energy_setting import EnergySetting
from experiments.paper.page.comparison import against
from experiments.paper.page.kept import Energies, Kept
from experiments.paper.page.words import NOT_YET, NOTHING, r2, slope
from experiments.paper.recipe import Recipe

HEAD = ("model", "depths", "exponent of the rate for mean energy 1", "R²", "−3/2", "for readout energy 1", "seeds")
REMARK = (
    "Embedded digits, batch 64, SGD. "
    "Where deeper ones vanish, the decay is exponential, and no power law fits. Over 5 to 49 units the exponents of "
    "MLP and CNN are near −3/2 ([theory](theory.md#what-the-energy-at-initialization-really-does))."
)


def energy_table(recipe: Recipe, kept: Kept) -> str:
    """A row a setting, over total effective depth."""
    settings = [setting for setting in recipe.settings if isinstance(setting, EnergySetting)]
    return markdown_table(HEAD, [_row(setting, kept.energies.get(setting.name)) for setting in settings])


def gelu_line() -> str:
    """Arithmetic, not measurement: q by quadrature."""
    q = gating_factor("gelu")
    drift = ", ".join(f"{gating_factor('gelu', std=std):.3f} at std {std:g}" for std in (0.5, 0.8, 1.25))
    return (
        f"GELU has q = {q:.3f} (paper 0.456) where the pre-activations have std 1. He variance then gives chi = 2q = "
        f"{2 * q:.3f} a layer (paper 0.912). At other scales q is {drift}. ReLU has q = "
        f"{gating_factor('relu'):.3f} at any scale."
    )


def _row(setting: EnergySetting, found: Energies | None) -> list[str]:
    if found is None or not found.counts:
        return [setting.title, NOTHING, NOT_YET, *[NOTHING] * 4]
    fit = found.fit()
    moving = {found.depths[row] for row in found.moving} or {0}
    vanish = "; deeper ones vanish" if max(found.depths) > max(moving) else ""
    return [
        setting.title,
        f"{min(moving)} to {max(moving)}{vanish}",
        slope(fit),
        r2(fit),
        against(fit, LAW_EXPONENT),
        slope(found.fit(readout=True)),
        str(max(map(found.depths.count, found.depths))),
    ]
