"""The results page says what the tables say, plainly where there are none, and is the one that is committed."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from matplotlib.figure import Figure

from depthlr.errors import DepthlrError
from depthlr.law.fit import Fit, fit_power_law
from depthlr.study.adaptive import APART
from depthlr.study.curves import chance_loss
from depthlr.study.record import Record
from depthlr.study.results import Results
from depthlr.training.cell import Cell
from experiments.paper.page.answer import apart, every_setting, families, family, finished, off, sensitivity
from experiments.paper.page.kept import Kept, Sweep, read_kept
from experiments.paper.page.page import provenance_table, results_page, time_table
from experiments.paper.page.pictures import both, comparable, draw_energies, drawn, pictures
from experiments.paper.page.recipe_tables import offsets, rate_ratios, recipe_table
from experiments.paper.page.words import HOLDS, SHALLOWER, STEEPER, UNDECIDED, against
from experiments.paper.page.zero_shot_tables import headline
from experiments.paper.recipes import CIFAR10_CNN, CIFAR10_VIT, KERNEL, MAIN, PADDING, VIT_384_EPOCH_3, ZERO_SHOT
from experiments.paper.running.jobs import chosen, job_of
from experiments.paper.running.run import run_job
from experiments.paper.settings import Setting
from experiments.running import Deadline

ROOT = Path(__file__).parents[3]
DEPTHS = (3, 4, 6, 8, 12, 16)


def line(slope: float, scatter: float = 0.0) -> Fit:
    """Optima on a power law, three seeds that scatter by so many decades."""
    jitter = (-1, 0, 1)
    pairs = [(depth, depth**slope * 10 ** (scatter * shift)) for depth in DEPTHS for shift in jitter]
    return fit_power_law([depth for depth, _ in pairs], [rate for _, rate in pairs], spacing=0.06)


@pytest.fixture(scope="module")
def folder(published, tmp_path_factory):
    """The tables of one smoked setting."""
    work, out = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("out")
    run_job(job_of(CIFAR10_CNN, "smoke", "fp32", data=published, work=work, out=out), Deadline())
    return out


@pytest.fixture
def copy(folder, tmp_path):
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_the_committed_page_is_what_the_committed_tables_say() -> None:
    kept = read_kept(ROOT / "results" / "reproduce")
    panels = pictures(kept)
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    assert page == results_page(kept, list(panels)), "run depthlr reproduce --from results/reproduce"
    for name in panels:
        assert (ROOT / "docs" / "images" / "results" / f"{name}.png").is_file()


def test_the_committed_tables_hold_no_smoke_and_no_path() -> None:
    for file in (ROOT / "results" / "reproduce").rglob("*.json"):
        facts = json.loads(file.read_text())
        assert facts["protocol"] in ("paper", "short")
        assert "folder" not in facts["study"]["data"]


def test_a_verdict_follows_the_interval() -> None:
    assert against(line(-1.5, 0.05), -1.5) == HOLDS
    assert against(line(-1.0, 0.02), -1.5) == SHALLOWER
    assert against(line(-2.0, 0.02), -1.5) == STEEPER
    assert against(line(-1.5, 2.0), -1.5) == UNDECIDED, "an interval wider than a power decides nothing"
    assert against(None, -1.5) == UNDECIDED


def test_what_was_not_measured_says_so(folder) -> None:
    page = results_page(read_kept(folder), [])
    rows = {row.split(" | ")[0].removeprefix("| "): row for row in page.splitlines() if row.startswith("| ")}
    assert "not yet measured" in rows["ViT, CIFAR-100"]
    assert "−1.371" in rows["ViT, CIFAR-100"]
    assert "not yet measured" in rows["Transformer pre-LN, width 32"]
    assert "The transfer itself is not yet measured" in page


def test_a_sweep_that_moved_names_every_machine(copy) -> None:
    file = copy / "main" / "cifar10-cnn.smoke.json"
    facts = json.loads(file.read_text())
    first = {"device": "NVIDIA H200", "torch": "2.11.0", "depthlr": "0.1.0", "python": "3.12.3"}
    versions = "(torch 2.11.0, depthlr 0.1.0, Python 3.12.3)"
    line = f"- CNN, CIFAR-10, smoke: trained on NVIDIA H200 {versions}, then CPU, 2 cores {versions}\n"
    for environments, shown in (([first, first | {"device": "CPU, 2 cores"}], True), ([first], False), (None, False)):
        file.write_text(json.dumps(facts | {"environments": environments}))
        assert (line in results_page(read_kept(copy), [])) is shown
    del facts["environments"]
    file.write_text(json.dumps(facts))
    assert "trained on" not in provenance_table(read_kept(copy)), "a file from before they were kept"


def test_a_smoke_is_no_evidence(folder) -> None:
    assert "None of the 34 settings has been measured in full yet." in results_page(read_kept(folder), [])


def test_numbers_follow_the_tables(copy) -> None:
    """A made-up power law in the CSV is the slope on the page."""
    place = copy / "main" / "cifar10-cnn.smoke"
    facts = json.loads(place.with_suffix(".smoke.json").read_text())
    facts |= {"protocol": "paper", "cells": 36, "study": CIFAR10_CNN.study("paper").to_dict()}
    rates = CIFAR10_CNN.study("paper").search.rates
    rows = ["size,depth,seed,rate,loss,diverged,seconds"]
    for size in (3, 6, 12, 24):
        for seed in range(3):
            best = min(range(80), key=lambda i: abs(rates[i] - 0.9 * size**-1.25))
            for step in (-1, 0, 1):
                rows.append(f"{size},{size + 1},{seed},{rates[best + step]!r},{1 + step * step},false,1.0")
    (copy / "main" / "cifar10-cnn.paper.json").write_text(json.dumps(facts))
    (copy / "main" / "cifar10-cnn.paper.csv").write_text("\n".join(rows) + "\n")
    sweep = read_kept(copy).sweeps["cifar10-cnn"]
    assert sweep.protocol == "paper", "the fullest protocol counts"
    assert sweep.fit("size").slope == pytest.approx(-1.25, abs=0.05)
    page = results_page(read_kept(copy), [])
    assert f"−{abs(sweep.fit('size').slope):.2f} (" in page
    assert "1 of 34 settings have a finished sweep: " in page
    assert page.count("| CNN, CIFAR-10 | ") > page.count("| CNN, CIFAR-100 | "), "both protocols in a recipe's table"


def test_sizes_that_learn_nothing_are_left_out_of_the_fit_and_named() -> None:
    kept = read_kept(ROOT / "results" / "reproduce")
    sweep = kept.sweeps["cnn-gelu-he"]
    assert chance_loss(sweep.results.study) == pytest.approx(math.log(10))
    assert sweep.unlearnt == (24, 30)
    least = {size: median(min(c.losses) for c in sweep.results.curves if c.size == size) for size in (16, 24, 30)}
    assert least[16] < 0.995 * math.log(10) < least[24] < least[30]
    assert {curve.size for curve in sweep.learnt.curves} == {3, 4, 6, 8, 12, 16}
    assert sweep.fit("size") == sweep.learnt.fit("size")
    page = results_page(kept, [])
    assert "\n- CNN + GELU, He variance, short: 24 and 30 layers\n" in page
    assert "The middle seed’s least loss there is less than 0.5 % below that of guessing:" in page
    assert "(2.94e-2) | (2.04e-2) |" in page
    assert kept.sweeps["cifar10-cnn"].unlearnt == ()


def test_kinds_of_models_are_told_apart_by_what_the_derivation_tells_apart() -> None:
    named = {setting.name: family(setting) for setting in chosen() if isinstance(setting, Setting)}
    assert named["cifar100-cnn"] == named["cnn-kernel-5"] == named["audio-cnn"] == "CNNs, SGD"
    assert named["cnn-gelu"] == named["cnn-gelu-he"] == "CNNs + GELU, SGD"
    assert named["cnn-adam"] == "CNNs, Adam"
    assert named["resnet-dropout"] == named["cifar10-resnet"] == "ResNets, SGD"
    assert named["resnet-batch-norm"] == "ResNets + BatchNorm, SGD"
    assert named["cifar10-cct"] == named["vit-480-epoch-1"] == "transformers, post-LN, SGD"
    assert named["imagenet-vit-pre-ln"] == "transformers, pre-LN, SGD"
    assert named["text-gpt"] == "transformers, pre-LN, AdamW"


def test_a_kind_of_model_says_what_its_middle_slope_means() -> None:
    kept = read_kept(ROOT / "results" / "reproduce")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in families(kept).splitlines()[2:]]
    done = [sweep for sweep in kept.sweeps.values() if sweep.counts]
    assert sum(int(row[1]) for row in rows) == len(done), "every finished setting once"
    for name, _, _, _, _, copied, law in rows:
        slopes = [fit.slope for sweep in done if family(sweep.setting) == name and (fit := sweep.fit("depth"))]
        assert copied == off(4 ** -median(slopes))
        assert law == off(4**-1.5 / 4 ** median(slopes))
    assert (off(2.5), off(0.4)) == ("2.5x too large", "2.5x too small")


def test_a_verdict_that_hangs_on_weights_or_sizes_is_named() -> None:
    kept = read_kept(ROOT / "results" / "reproduce")
    said = sensitivity(finished(kept))
    rows = {row.split(" | ")[0].removeprefix("| "): row.split(" | ") for row in said.splitlines()[4:]}
    for sweep in finished(kept):
        own = sweep.learnt
        pairs = [(own.depths[c.size], c.optimum.rate) for c in own.curves if c.optimum and not c.optimum.at_edge]
        papers = fit_power_law(*zip(*pairs, strict=True), spacing=own.study.search.spacing, pooling=0.0)
        changes = [against(papers, -1.5), against(sweep.results.fit("depth"), -1.5)]
        if any(word != against(sweep.fit("depth"), -1.5) for word in changes):
            assert rows[sweep.setting.title][2].endswith(f", {changes[0]}")
    assert said.startswith(f"{len(finished(kept)) - len(rows)} of {len(finished(kept))} verdicts stay")


def test_seeds_that_disagree_are_found() -> None:
    """One seed's rates at one size, moved by more than is allowed, and by less."""
    sweep = read_kept(ROOT / "results" / "reproduce").sweeps["cifar100-resnet"]

    def moved(decades: float) -> Sweep:
        records = [
            replace(one, cell=replace(one.cell, rate=one.cell.rate * 10**decades))
            if (one.cell.size, one.cell.seed) == (6, 0)
            else one
            for one in sweep.results.records
        ]
        return replace(sweep, results=replace(sweep.results, records=tuple(records)))

    assert apart(sweep) == apart(moved(0.0)) == ()
    assert apart(moved(-2 * APART)) == (6,)


def test_settings_of_one_protocol_have_an_offset(tmp_path) -> None:
    """Rates of one are three times the other's at every size."""
    source = ROOT / "results" / "reproduce" / "main" / "cifar10-cnn.paper.csv"
    for target in ("main/cifar10-cnn", "padding/cnn-zeros"):
        place = tmp_path / f"{target}.paper.csv"
        place.parent.mkdir(exist_ok=True)
        shutil.copy(source.with_suffix(".json"), place.with_suffix(".json"))
        shutil.copy(source, place)
    head, *rows = place.read_text().splitlines()
    at = head.split(",").index("rate")
    tripled = [row.split(",") for row in rows]
    for row in tripled:
        row[at] = repr(3 * float(row[at]))
    place.write_text("\n".join([head, *map(",".join, tripled)]) + "\n")
    kept = read_kept(tmp_path)
    ratios = rate_ratios(kept.sweeps["cnn-zeros"], kept.sweeps["cifar10-cnn"])
    assert list(ratios) == [3, 4, 6, 8, 12, 16, 24, 30]
    assert list(ratios.values()) == pytest.approx([3.0] * 8)
    assert offsets(PADDING, kept) == (
        "Against the baseline:\n\n- CNN, zero padding: tuned rates are 3 of the baseline’s (3 to 3 at 8 sizes, paper)."
    )
    assert offsets(PADDING, replace(kept, sweeps={"cifar10-cnn": kept.sweeps["cifar10-cnn"]})) == ""


def test_a_landscape_is_a_scan_and_what_the_search_adds_to_its_seed() -> None:
    def results(rates: list[float], seeds: range, kind: str) -> Results:
        study = CIFAR10_VIT.study("short")
        study = replace(study, search=replace(study.search, kind=kind, seeds=tuple(seeds)))
        cells = [Cell(2, seed, rate) for seed in seeds for rate in rates]
        return Results(study, tuple(Record(cell, cell.rate, False, 0.0, "", b"") for cell in cells), {2: 6})

    searched = replace(results([1e-3, 1e-2], range(3), "adaptive"), depths={2: 6, 4: 10})
    drawn = both(results([1e-4, 1e-2, 1.0], range(1), "grid"), searched)
    assert drawn.depths == {2: 6, 4: 10}  # of an unfinished scan too
    assert [record.cell for record in drawn.records] == [Cell(2, 0, rate) for rate in (1e-4, 1e-3, 1e-2, 1.0)]
    (curve,) = drawn.curves
    assert curve.rates == (1e-4, 1e-3, 1e-2, 1.0)


def test_a_baseline_is_drawn_under_the_protocol_of_what_it_is_compared_with() -> None:
    kept = read_kept(ROOT / "results" / "reproduce")
    assert {sweep.protocol for sweep in comparable(KERNEL, kept)} == {"short"}
    assert comparable(MAIN, kept)[0].protocol == "paper"  # its own settings: the fullest
    alone = Kept({"cifar10-cnn": kept.sweeps["cifar10-cnn"], "cnn-kernel-5": kept.sweeps["cnn-kernel-5"]}, {})
    assert [sweep.protocol for sweep in comparable(KERNEL, alone)] == ["paper", "short"]  # where there is no other


def test_settings_of_different_protocols_are_said_not_to_compare() -> None:
    kept = read_kept(ROOT / "results" / "reproduce")
    warned = "Not all were trained under one protocol"
    paper = {name: sweep for name, sweep in kept.sweeps.items() if sweep.protocol == "paper"}
    assert warned not in recipe_table(MAIN, Kept(paper, {}))
    found = [sweep for name in kept.sweeps for sweep in kept.protocols(kept.sweeps[name].setting)]
    short = {sweep.setting.name: sweep for sweep in found if sweep.protocol == "short"}
    assert warned not in recipe_table(MAIN, Kept(short, {}))
    some = {"cifar10-cnn": paper["cifar10-cnn"], "cifar100-cnn": short["cifar100-cnn"]}
    assert warned in recipe_table(MAIN, Kept(some, {}))


def test_a_sum_of_plain_grids_says_of_how_many_it_is(copy) -> None:
    file = copy / "main" / "cifar10-cnn.smoke.json"
    other = copy / "main" / "cifar10-resnet.smoke.json"
    facts = json.loads(file.read_text())
    shutil.copy(file.with_suffix(".csv"), other.with_suffix(".csv"))

    def total(first: float | None, second: float | None) -> str:
        file.write_text(json.dumps(facts | {"complete": True, "plain_grid_seconds": first}))
        other.write_text(json.dumps(facts | {"complete": True, "plain_grid_seconds": second}))
        row = next(row for row in time_table(read_kept(copy)).splitlines() if row.startswith("| **main**"))
        return row.split(" | ")[-2]

    assert total(1000.0, 234.0) == "1,234"
    assert total(1000.0, None) == "1,000 (1 of 2)"
    assert total(None, None) == "–"


def test_what_is_unfinished_hides_nothing_that_is_finished(copy) -> None:
    facts = json.loads((copy / "main" / "cifar10-cnn.smoke.json").read_text())
    rows = (copy / "main" / "cifar10-cnn.smoke.csv").read_text()
    for protocol, complete in (("paper", False), ("short", True)):
        said = json.dumps(facts | {"protocol": protocol, "complete": complete})
        (copy / "main" / f"cifar10-cnn.{protocol}.json").write_text(said)
        (copy / "main" / f"cifar10-cnn.{protocol}.csv").write_text(rows)
    kept = read_kept(copy)
    assert kept.sweeps["cifar10-cnn"].protocol == "short"
    assert [one.protocol for one in kept.protocols(CIFAR10_CNN)] == ["short", "paper", "smoke"]


def test_the_size_an_unfinished_sweep_is_at_has_no_optimum_yet(copy) -> None:
    """Cut a real sweep off within a size: that size is left out, and no verdict is given on the others."""
    committed = Path(__file__).parents[3] / "results" / "reproduce" / "main"
    head, *rows = (committed / "cifar10-cnn.paper.csv").read_text().splitlines()
    half = [row for row in rows if int(row.split(",")[0]) < 16] + [r for r in rows if r.startswith("16,")][:7]
    facts = json.loads((committed / "cifar10-cnn.paper.json").read_text()) | {"complete": False, "cells": len(half)}
    (copy / "main" / "cifar10-cnn.paper.csv").write_text("\n".join([head, *half]) + "\n")
    (copy / "main" / "cifar10-cnn.paper.json").write_text(json.dumps(facts))
    kept = read_kept(copy)
    (sweep,) = [one for one in kept.protocols(CIFAR10_CNN) if one.protocol == "paper"]
    assert {curve.size for curve in sweep.results.curves} == {3, 4, 6, 8, 12}
    only = replace(kept, sweeps={"cifar10-cnn": sweep})
    (row,) = [row for row in every_setting(only).splitlines() if row.startswith("| CNN, CIFAR-10 |")]
    assert "paper, unfinished | – | – |" in row
    assert comparable(MAIN, Kept({"cifar10-cnn": sweep}, {})) == [], "nor is it drawn"
    assert offsets(PADDING, replace(kept, sweeps={"cifar10-cnn": sweep, "cnn-zeros": sweep})) == ""


def test_what_was_found_is_said_of_the_tables_it_stands_beside_alone(copy) -> None:
    kept = read_kept(copy)
    assert kept.findings == {}
    page = results_page(kept, [])
    assert "{{" not in page
    assert "\n\n\n" not in page
    for words in read_kept(ROOT / "results" / "reproduce").findings.values():
        assert words not in page
    (copy / "findings.md").write_text("A remark.\n<!-- first -->\nAll of it\nholds.\n\n<!-- cost -->\nLittle.\n")
    kept = read_kept(copy)
    assert kept.findings == {"first": "All of it\nholds.", "cost": "Little."}
    assert "## The answer\n\nAll of it\nholds.\n\nThese terms are" in results_page(kept, [])


@pytest.mark.parametrize("complete", [True, False])
def test_unfinished_energies_are_no_evidence(copy, complete) -> None:
    committed = Path(__file__).parents[3] / "results" / "reproduce" / "theory"
    (copy / "theory").mkdir()
    (copy / "theory" / "energy-mlp-64.paper.csv").write_bytes((committed / "energy-mlp-64.paper.csv").read_bytes())
    facts = json.loads((committed / "energy-mlp-64.paper.json").read_text()) | {"complete": complete}
    (copy / "theory" / "energy-mlp-64.paper.json").write_text(json.dumps(facts))
    page = results_page(read_kept(copy), [])
    assert ("| MLP, width 64 | – | not yet measured |" in page) is not complete


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        ("csv", lambda text: text.replace(",loss,", ",lost,"), "lacks the column loss"),
        ("csv", lambda text: text.replace(",false,", ",false,x", 1), "for seconds in line 2"),
        ("csv", lambda text: text[: text.rindex(",false")], "breaks off in line"),
        ("json", lambda text: text.replace('"complete"', '"finished"'), "lacks complete"),
        ("json", lambda text: text[:-20], "is no JSON"),
        ("csv", lambda text: text[: text.rstrip().rindex("\n") + 1], r"smoke.json says \d+ cells"),
    ],
)
def test_a_damaged_table_is_named(copy, kind, change, sentence) -> None:
    file = copy / "main" / f"cifar10-cnn.smoke.{kind}"
    file.write_text(change(file.read_text()))
    with pytest.raises(DepthlrError, match=sentence):
        read_kept(copy)


def test_a_folder_without_results_is_refused(tmp_path) -> None:
    with pytest.raises(DepthlrError, match="holds no results of a recipe"):
        read_kept(tmp_path)


def test_carried_rates_without_an_optimum_to_compare_with_are_not_drawn() -> None:
    """As where every target's optimum is at the edge of the range."""
    sweep = read_kept(ROOT / "results" / "reproduce").sweeps[VIT_384_EPOCH_3.name]
    own = tuple(record for record in sweep.results.records if record.cell.size == ZERO_SHOT.source)
    alone = replace(sweep, results=replace(sweep.results, records=own))
    assert len(pictures(Kept({sweep.setting.name: sweep}, {}))["zero-shot"]) == 2
    assert len(pictures(Kept({sweep.setting.name: alone}, {}))["zero-shot"]) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
def test_every_panel_is_drawn_on_axes_of_its_own(count) -> None:
    found = []
    assert drawn([found.append] * count).startswith(b"\x89PNG")
    assert len(set(map(id, found))) == count


def test_energies_are_drawn_as_the_rates_at_which_they_are_one() -> None:
    energies = read_kept(ROOT / "results" / "reproduce").energies["energy-resnet-16"]
    made = replace(energies, depths=(4, 8), sizes=(2, 6), means=(4.0, 64.0), readouts=(1.0, 1.0))
    axes = Figure().subplots()
    draw_energies(axes, [made])
    rates, law = axes.get_lines()[:2]
    assert list(rates.get_xdata()) == [4, 8]
    assert list(rates.get_ydata()) == pytest.approx([1.0, (64.0 / 4.0) ** -0.5])
    assert list(law.get_ydata()) == pytest.approx([1.0, 2**-1.5])


def test_energies_that_all_vanished_are_not_drawn() -> None:
    energies = read_kept(ROOT / "results" / "reproduce").energies["energy-mlp-gelu"]
    gone = replace(energies, means=(0.0,) * len(energies.means))
    assert "theory" in pictures(Kept({}, {"energy-mlp-gelu": energies}))
    assert "theory" not in pictures(Kept({}, {"energy-mlp-gelu": gone}))


def test_a_smoke_is_no_answer(copy) -> None:
    kept = read_kept(ROOT / "results" / "reproduce")
    sweep = kept.sweeps[VIT_384_EPOCH_3.name]
    assert headline(kept)
    assert headline(Kept({VIT_384_EPOCH_3.name: replace(sweep, protocol="smoke")}, {})) == ""
