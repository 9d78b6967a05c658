"""What moves the tuned rate, on tables whose answer is known."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from tests.experiments.realbench.tiny import DEPTHS, write_facts, write_rows, write_sweep

from experiments.realbench.chosen_rates import long_cells
from experiments.realbench.kept import COLUMNS, read_facts, read_rows
from experiments.realbench.moved import (
    INITIALIZATIONS,
    JUDGES,
    LENGTHS,
    axes_table,
    corners,
    effect_rows,
    factors_table,
    horizon_table,
    moves,
    peers_table,
)
from experiments.realbench.plan import HORIZON, TWINS, Job, long_variant, of_length, part_named, twin
from experiments.realbench.recipes import recipe_named

GPT, RESNET = HORIZON


def falling(exponent: float, sizes, start: float = -2.0) -> dict[int, float]:
    first = min(sizes)
    return {size: start + exponent * math.log10(DEPTHS[size] / DEPTHS[first]) for size in sizes}


def cells(text: str) -> list[list[str]]:
    """A Markdown table's rows without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"][2:]


def seeds_of(variant: str) -> tuple[int, ...]:
    return recipe_named(variant).study.search.seeds


def write_horizon(tables: Path, exponents: dict[int, float]) -> None:
    for name in HORIZON:
        sizes = recipe_named(name).study.model.sizes
        for steps, exponent in exponents.items():
            if steps == 8_000:
                for size, best in falling(exponent, sizes).items():
                    if size in HORIZON[name]:
                        write_sweep(tables, long_variant(name, size), {size: best}, seeds=(0,))
            else:
                variant = name if steps == 1_200 else of_length(name, steps)
                write_sweep(tables, variant, falling(exponent, sizes), scatter=0.02, seeds=seeds_of(variant))


def test_the_horizon_shows_each_lengths_exponent(tmp_path):
    wanted = {300: -0.5, 1_200: -0.3, 1_500: -0.2, 8_000: 0.1}
    write_horizon(tmp_path, wanted)
    found = cells(horizon_table(tmp_path))
    assert [row[0] for row in found] == [GPT] * 4 + [RESNET] * 4
    assert [float(row[5]) for row in found] == pytest.approx(2 * list(wanted.values()))
    # Each seed lies 0.02 decades from the mean of two: a standard deviation of 0.028. One seed's floor is root 2 of it.
    assert [row[6] for row in found] == 2 * ["0.04", "0.03", "0.04", "0.04"]
    first = math.log10(34 / 6)
    assert [float(row[4]) for row in found[:4]] == pytest.approx([round(e * first, 2) for e in wanted.values()])


def test_the_horizon_is_empty_while_a_table_is_unfinished(tmp_path):
    write_horizon(tmp_path, {300: -0.5, 1_200: -0.3, 1_500: -0.2, 8_000: 0.1})
    last = tmp_path / f"{recipe_named(long_variant(RESNET, 8)).name}.csv"
    write_facts(last, read_facts(last)["study"], 3, complete=False)
    assert horizon_table(tmp_path) == ""


def test_the_horizon_marks_a_best_rate_at_the_end_of_what_ran(tmp_path):
    write_horizon(tmp_path, {300: -0.5, 1_200: -0.3, 1_500: -0.2, 8_000: 0.1})
    assert "edge" not in horizon_table(tmp_path)
    table = tmp_path / f"{recipe_named(long_variant(GPT, 16)).name}.csv"
    rows = [dict(row) for cell, row in read_rows(table).items() if cell.rate > 0.05]  # above the valley
    write_rows(table, rows, COLUMNS)
    found = [row for row in cells(horizon_table(tmp_path)) if any("edge" in cell for cell in row)]
    assert [row[:2] for row in found] == [[GPT, "8,000"]]
    assert found[0][2] == "0.01"
    assert found[0][3].endswith(" (edge)")


def test_long_runs_surround_the_rate_of_shorter_ones(tmp_path):
    shorter = write_sweep(tmp_path, of_length(GPT, 1_500), falling(-0.2, (2, 4, 8, 16)))
    found = long_cells(recipe_named(long_variant(GPT, 16)), shorter)
    assert {cell.size for cell in found} == {16}
    assert {cell.seed for cell in found} == {0}
    decades = sorted({round(math.log10(cell.rate) - falling(-0.2, (2, 16))[16], 3) for cell in found})
    assert decades == [-0.625, -0.375, -0.125, 0.125, 0.375, 0.625]
    assert [math.log10(cell.rate) < -2.0 for cell in found[:2]] == [True] * 2  # longer runs want lower rates
    assert Job("long", long_variant(GPT, 16)).runs(tmp_path) == 0


def write_factors(tables: Path, name: str, exponent) -> None:
    sizes = recipe_named(name).study.model.sizes
    for words, option in INITIALIZATIONS.items():
        for steps in LENGTHS:
            variant = of_length(name, steps) + option
            final = falling(exponent(words, steps, "final validation loss"), sizes)
            write_sweep(tables, variant, final, seeds=seeds_of(variant))
            # The table that the training loss asked for has its own valley.
            mean = falling(exponent(words, steps, "mean training loss"), sizes)
            write_sweep(tables, f"{variant}&metric=budget", mean, seeds=seeds_of(variant))


def test_each_factors_effect_on_the_exponent_is_found(tmp_path):
    def exponent(words, steps, judge):
        return -0.5 + 0.3 * (words == "the library's") + 0.2 * (steps == 1_500) - 0.1 * (judge == "mean training loss")

    for name in HORIZON:
        write_sweep(tmp_path, name, falling(-0.2, recipe_named(name).study.model.sizes), scatter=0.01)
        write_factors(tmp_path, name, exponent)
    found = corners(GPT, tmp_path)
    assert len(found) == 8
    assert {(one.initialization, one.steps, one.judge) for one in found} == {
        (words, steps, judge) for words in INITIALIZATIONS for steps in LENGTHS for judge in JUDGES
    }
    for one in found:
        assert one.exponent == pytest.approx(exponent(one.initialization, one.steps, one.judge), abs=1e-6)
        assert one.error > 0
    effects = {row[1]: float(row[4]) for row in effect_rows(GPT, found)}
    assert effects == pytest.approx({"initialization": 0.3, "steps": 0.2, "judge": 0.1})
    text = factors_table(tmp_path)
    assert text.count("edge") == 0
    assert len(text.splitlines()) == 2 + 16 + 1 + 2 + 6


def cut(tables: Path, variant: str, size: int, least: float) -> None:
    """Drop the runs of a size below a rate."""
    table = tables / f"{recipe_named(variant).name}.csv"
    rows = [dict(row) for cell, row in read_rows(table).items() if cell.size != size or cell.rate > least]
    write_rows(table, rows, COLUMNS)


def test_a_best_rate_at_the_end_of_what_ran_is_marked_in_every_table(tmp_path):
    for name in {*HORIZON, *TWINS}:
        base = recipe_named(name).study.model.sizes
        write_sweep(tmp_path, name, falling(-0.2, base), scatter=0.01)
        write_sweep(tmp_path, of_length(name, 300), falling(-0.2, base))
        write_factors(tmp_path, name, lambda *_: -0.2)
    for part in ("axes", "peers"):
        for job in part_named(part).jobs(tmp_path):
            write_sweep(tmp_path, job.variant, falling(-0.2, job.recipe.study.model.sizes), seeds=(0,))
    tables = axes_table, peers_table, factors_table
    assert not any("edge" in table(tmp_path) for table in tables)
    wide = part_named("axes").jobs(tmp_path)[1].variant
    cut(tmp_path, wide, 8, 0.05)
    cut(tmp_path, twin(TWINS[0], 1.0), 16, 0.05)
    cut(tmp_path, of_length(GPT, 150) + "&variance=gating", 4, 0.05)
    marked = [[row for row in cells(table(tmp_path)) if "edge" in str(row)] for table in tables]
    assert [row[0:3] for row in marked[0]] == [["width x4", GPT, "8 to 8"], ["depth and width x4", GPT, "2 to 8"]]
    assert [row[0:2] for row in marked[1]] == [[TWINS[0], "CompleteP"]]
    assert marked[1][0][4].endswith(" (edge at 16)")
    assert [row[0:4] for row in marked[2]] == [[GPT, "ours", "150", "final validation loss"]]
    assert marked[2][0][4].endswith(" (edge at 4)")


def test_axes_compare_two_sizes_of_each(tmp_path):
    for name in HORIZON:
        base = recipe_named(name).study.model.sizes
        small, large = base[0], base[2]
        narrow, wide, batch = (job.variant for job in part_named("axes").jobs(tmp_path) if job.variant.startswith(name))
        write_sweep(tmp_path, name, falling(-0.2, base))
        write_sweep(tmp_path, of_length(name, 300), falling(-0.2, base, start=-1.7))
        write_sweep(tmp_path, narrow, falling(-0.2, (small, large), start=-1.6))
        write_sweep(tmp_path, wide, falling(-0.2, (small, large), start=-2.2))
        assert axes_table(tmp_path) == ""
        write_sweep(tmp_path, batch, falling(-0.2, (small, large), start=-1.7))
    found = {(row[0], row[1], row[2]): row for row in cells(axes_table(tmp_path))}
    assert len(found) == 14
    assert found["width x4", GPT, "2 to 2"][3:7] == ["-0.60", "0.00", "+0.00", "-0.60"]
    assert found["width x4", RESNET, "1 to 1"][6] == "-"
    assert found["batch x4", GPT, "8 to 8"][3:7] == ["+0.30", "0.00", "+0.00", "+0.30"]
    assert found["batch x4", RESNET, "4 to 4"][6] == "+0.60"
    assert found["steps x4", GPT, "2 to 2"][3] == "-0.30"
    both = found["depth and width x4", GPT, "2 to 8"]
    assert float(both[3]) == pytest.approx(-0.6 - 0.2 * math.log10(3), abs=0.01)
    assert float(both[5]) == pytest.approx(-0.2 * math.log10(3), abs=0.01)
    assert float(both[8]) == pytest.approx(0.6, abs=0.011)


def test_widths_and_batches_of_the_axes_differ_by_a_factor_of_four():
    for name in HORIZON:
        for move in moves(name):
            source, target = (recipe_named(variant).study for variant in (move.source, move.target))
            if move.axis == "batch x4":
                assert target.training.batch == 4 * source.training.batch
            if move.axis == "steps x4":
                assert target.training.run_steps == 4 * source.training.run_steps
            if "width" in move.axis:
                widths = [int(str(study.model.spec).partition("width=")[2]) for study in (source, target)]
                assert widths[1] == 4 * widths[0]
            assert move.source_size in source.model.sizes
            assert move.target_size in target.model.sizes


def test_peers_are_judged_on_their_own_twins(tmp_path):
    for name in TWINS:
        sizes = recipe_named(name).study.model.sizes
        write_sweep(tmp_path, name, falling(-0.2, sizes), least=2.0)
        half = {size: -2.0 - 0.5 * math.log10(size / 2) for size in sizes}
        write_sweep(tmp_path, twin(name, 0.5), half, least=1.9, seeds=(0,))
        assert peers_table(tmp_path) == ""
        write_sweep(tmp_path, twin(name, 1.0), falling(0.1, sizes), least=1.8, seeds=(0,))
    found = {(row[0], row[1]): row for row in cells(peers_table(tmp_path))}
    assert len(found) == 12
    name = TWINS[0]
    assert found[name, "constant exponent"][2] == "0.00"
    assert float(found[name, "copy"][2]) == pytest.approx(0.2 * math.log10(18 / 6), abs=0.006)
    assert found[name, "Depth-muP"][2:4] == ["0.00", "0.00"]
    assert float(found[name, "CompleteP"][3]) == pytest.approx(0.1 * math.log10(34 / 6), abs=0.006)
    losses = [float(found[name, rule][6]) for rule in ("copy", "Depth-muP", "CompleteP")]
    assert losses == pytest.approx([2.0, 1.9, 1.8], rel=0.02)
