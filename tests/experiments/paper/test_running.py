"""Sweeps of a recipe resume, recall what a longer one ran, carry rates, and never lose a finished table."""

from __future__ import annotations

import csv
import json
import math
from contextlib import nullcontext
from dataclasses import replace

import pytest

from depthlr.errors import DepthlrError
from depthlr.law.rules import pathsum_transfer, transfer_by_power
from depthlr.study.record import Environment
from depthlr.study.results import read_results
from depthlr.study.search import Progress
from depthlr.study.store import open_store, read_store
from depthlr.training.cell import Outcome
from depthlr.transfer.measured import Measured
from experiments.paper.recipes import CIFAR10_CNN, RESNET_ENERGY, VIT_384_EPOCH_3, WIDTH_EPOCHS
from experiments.paper.running import sweep
from experiments.paper.running.carried import INITIALIZATIONS, RULES
from experiments.paper.running.energies import initial_energies, initial_measured_rate
from experiments.paper.running.jobs import job_of
from experiments.paper.running.run import is_measured, run_job
from experiments.paper.running.sweep import beginnings, run_sweep
from experiments.running import Deadline, Facts, OutOfTime, read_facts

EPOCH_1 = next(setting for setting in WIDTH_EPOCHS.settings if setting.name == "vit-384-epoch-1")
FOREVER = Deadline()


class CellsLeft:
    """A deadline that comes after so many looks at the clock."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def check(self) -> None:
        self.looks -= 1
        if self.looks < 0:
            raise OutOfTime


def table(job, kind="csv"):
    """All columns but the times."""
    with job.out.file(kind).open() as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]


def facts(job):
    return json.loads(job.out.file("json").read_text())


def test_time_lent_in_pieces_gives_the_table_of_an_undisturbed_run(job) -> None:
    whole, pieces = job(VIT_384_EPOCH_3), job(VIT_384_EPOCH_3, "pieces", "out2")
    assert run_job(whole, FOREVER)
    rounds = 0
    while not run_job(pieces, CellsLeft(3)):
        rounds += 1
        assert rounds < 30
    assert rounds > 3
    for kind in ("csv", "carried.csv"):
        assert table(pieces, kind) == table(whole, kind)
    assert facts(pieces)["complete"] is True


def test_an_unfinished_sweep_says_so(job) -> None:
    begun = job(CIFAR10_CNN)
    assert not run_job(begun, CellsLeft(2))
    assert facts(begun)["complete"] is False
    assert len(table(begun)) == facts(begun)["cells"] > 0


def test_no_time_at_all_leaves_nothing(job) -> None:
    begun = job(CIFAR10_CNN)
    assert not run_job(begun, Deadline(0.0))
    assert not begun.out.file("csv").exists()


@pytest.mark.parametrize("setting", [CIFAR10_CNN, RESNET_ENERGY], ids=lambda s: s.name)
def test_an_unfinished_table_never_replaces_a_finished_one(job, setting) -> None:
    done = job(setting)
    assert run_job(done, FOREVER)
    before = done.out.file("csv").read_bytes()
    assert not run_job(job(setting, "other"), CellsLeft(1))
    assert done.out.file("csv").read_bytes() == before
    assert facts(done)["complete"] is True


def test_energies_go_on_where_they_stopped(job) -> None:
    whole, pieces = job(RESNET_ENERGY), job(RESNET_ENERGY, "pieces", "out2")
    assert run_job(whole, FOREVER)
    assert not run_job(pieces, CellsLeft(1))
    assert 0 < len(table(pieces)) < len(table(whole))
    assert run_job(pieces, FOREVER)
    assert table(pieces) == table(whole)


def test_the_first_epochs_of_a_longer_sweep_are_the_shorter_one(job) -> None:
    """Recalled cells have the losses that training them anew gives."""
    assert run_job(job(VIT_384_EPOCH_3), FOREVER)
    recalled, alone = job(EPOCH_1), job(EPOCH_1, "alone", "out2")
    known = beginnings(read_store(recalled.longer), recalled.study, 2, recalled.examples().digest)
    moved = Environment("another device", "2.0", "0.1", "3.12")
    with open_store(recalled.longer, job(VIT_384_EPOCH_3).study) as store:
        store.record_environment(moved)
    assert run_job(recalled, FOREVER)
    assert moved in read_results(recalled.store).environments, "what trained the longer one trained these"
    assert run_job(alone, FOREVER)
    assert table(recalled) == table(alone)
    both = [record for record in read_results(recalled.store).records if record.cell in known]
    assert both
    assert all(record.seconds == 0 for record in both), "nothing was trained twice"


def test_nothing_is_recalled_of_another_study(job) -> None:
    assert run_job(job(CIFAR10_CNN), FOREVER)
    content, digest = read_store(job(CIFAR10_CNN).store), job(CIFAR10_CNN).examples().digest
    study = CIFAR10_CNN.study("smoke")
    assert beginnings(content, study, 2, digest)
    assert beginnings(content, study, 2, "that of other data") == {}
    other = replace(study, training=replace(study.training, optimizer="adam"))
    assert beginnings(content, other, 2, digest) == {}
    longer = replace(study, training=replace(study.training, epochs=2))
    assert beginnings(content, longer, 4, digest) == {}, "a sweep cannot be longer than it was"


def test_energies_of_another_study_are_refused(job) -> None:
    done = job(RESNET_ENERGY)
    assert run_job(done, FOREVER)
    before = done.out.file("csv").read_bytes()
    wider = replace(done.study, model=replace(done.study.model, spec="resnet?width=16"))
    with pytest.raises(DepthlrError, match="is of another study or of other data: delete it"):
        run_job(replace(done, study=wider), FOREVER)
    assert done.out.file("csv").read_bytes() == before
    assert run_job(done, FOREVER)


def test_a_setting_is_not_finished_before_its_carried_rates_are_trained(job) -> None:
    swept = job(VIT_384_EPOCH_3)
    assert run_job(replace(swept, source=None), FOREVER)
    assert not is_measured(swept)
    assert run_job(swept, FOREVER)
    assert is_measured(swept)
    assert run_job(replace(swept, at_once=4), FOREVER)
    assert facts(swept)["at_once"] == 1, "nothing was trained, so nothing shared the device"


def test_a_file_in_the_place_of_a_folder_is_a_sentence(job) -> None:
    blocked = job(CIFAR10_CNN)
    blocked.store.parent.parent.mkdir(parents=True)
    blocked.store.parent.write_text("")
    with pytest.raises(DepthlrError, match="cannot be made"):
        run_job(blocked, FOREVER)


def test_a_carried_rate_is_trained_at_exactly_what_its_rule_says(job) -> None:
    carrying = job(VIT_384_EPOCH_3)
    assert run_job(carrying, FOREVER)
    results = read_results(carrying.store)
    rate = results.tuned_rates[carrying.source]
    rows = table(carrying, "carried.csv")
    targets = [size for size in results.study.model.sizes if size != carrying.source]
    assert [(row["rule"], int(row["size"])) for row in rows] == [(rule, size) for rule in RULES for size in targets]
    depths = results.depths
    examples, blocks, plain = carrying.examples(), 2, 2  # a transformer's block is two updates; stem and head
    energies = {size: initial_energies(results.study, size, examples, INITIALIZATIONS, "cpu") for size in depths}
    best = {size: initial_measured_rate(results.study, size, examples, INITIALIZATIONS, "cpu") for size in depths}
    for row in rows:
        size = int(row["size"])
        if row["rule"] == "pathsum":
            ends = [(plain, blocks * at) for at in (carrying.source, size)]
            assert float(row["rate"]) == pytest.approx(pathsum_transfer(rate, source=ends[0], target=ends[1]), rel=1e-8)
        if row["rule"] == "am-mup":
            here, there = (energies[at].rate for at in (carrying.source, size))
            assert float(row["rate"]) == pytest.approx(rate * there / here, rel=1e-6)
        if row["rule"] == "measured":  # one width, so the measured change is averaged with the law's
            ends = [depths[at] for at in (carrying.source, size)]
            change = Measured.change(best[carrying.source], best[size], *ends, one_width=True)
            assert float(row["rate"]) == pytest.approx(rate * change.factor, rel=1e-6)
        if row["rule"] == "copy":
            assert float(row["rate"]) == pytest.approx(rate, rel=1e-8)
        if row["rule"] == "law":
            carried = transfer_by_power(rate, depths[carrying.source], depths[size])
            assert float(row["rate"]) == pytest.approx(carried, rel=1e-8)
        assert math.isfinite(float(row["loss"])) or row["diverged"] == "true"


def test_the_plain_grid_is_a_cells_time_times_rates_seeds_and_sizes(monkeypatch, published) -> None:
    study = replace(CIFAR10_CNN.study("paper"), data=replace(CIFAR10_CNN.study("paper").data, limit=20))
    study = replace(study, training=replace(study.training, epochs=None, steps=390, batch=16))
    monkeypatch.setattr(
        sweep, "train_plainly", lambda task, cell, device: Outcome([], 1.5 + 0.25 * task.training.steps, False)
    )
    from depthlr.data import load

    seconds = sweep.plain_cell_seconds(study, 3, load("cifar10", published), "cpu")
    assert seconds == pytest.approx(1.5 + 0.25 * 390)
    wide = replace(study, model=replace(study.model, sizes=(2, 4, 6, 8, 12)))
    assert sweep.sampled_sizes(wide) == {2, 6, 12}
    assert sweep.plain_grid_seconds(wide, {2: 1.0, 6: 5.0, 12: 8.0}) == pytest.approx((1 + 3 + 5 + 6 + 8) * 80 * 3)


def test_the_plain_grid_may_be_timed_later(job) -> None:
    swept = job(EPOCH_1)
    assert run_job(replace(swept, at_once=3), FOREVER)
    facts = swept.out.file("json")
    shared = json.loads(facts.read_text())
    assert (shared["plain_grid_seconds"], shared["at_once"]) == (None, 3)
    assert run_job(swept, FOREVER)
    alone = json.loads(facts.read_text())
    assert alone["plain_grid_seconds"] > 0
    assert [alone[key] for key in ("at_once", "sweep_seconds")] == [3, shared["sweep_seconds"]]


def test_seconds_are_a_share_of_the_device(tmp_path, monkeypatch) -> None:
    facts, file = Facts(), tmp_path / "facts.json"
    clock = iter([10.0, 13.0, 16.0, 20.0, 21.0, 21.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    with facts.timing("sweep_seconds", file, at_once=3) as done:
        done()
        assert read_facts(file).sweep_seconds == 1.0, "so far"
    with facts.timing("sweep_seconds", file) as done:
        done()
    assert (facts.sweep_seconds, facts.at_once) == (3.0, 3)
    assert read_facts(file) == facts
    file.write_text(file.read_text().replace('"at_once": 3', '"other": 3'))
    assert read_facts(file).at_once == 1, "a file from before it was kept"


def test_seconds_are_kept_while_a_sweep_runs(job) -> None:
    swept, kept = job(CIFAR10_CNN), []

    class Looking(Progress):
        def finished(self, record, estimate) -> None:
            kept.append(read_facts(swept.facts).sweep_seconds if swept.facts.is_file() else 0.0)

    assert run_sweep(swept, FOREVER, lambda study: nullcontext(Looking()))
    assert kept[0] == 0 < kept[1], "each cell's when the next one has finished"
    assert kept == sorted(kept)
    assert kept[-1] < read_facts(swept.facts).sweep_seconds


def test_a_missing_data_folder_is_said_before_anything_is_written(tmp_path) -> None:
    work, out = tmp_path / "work", tmp_path / "out"
    job = job_of(CIFAR10_CNN, "smoke", "fp32", data=tmp_path / "nowhere", work=work, out=out)
    with pytest.raises(DepthlrError, match="holds no cifar10"):
        run_job(job, FOREVER)
    assert not work.exists()
    assert not out.exists()


def test_a_refused_run_changes_nothing(job, published, tmp_path) -> None:
    done = job(CIFAR10_CNN)
    assert run_job(done, FOREVER)
    before = {file: file.read_bytes() for file in (done.facts, done.out.file("json"), done.out.file("csv"))}
    other = job_of(CIFAR10_CNN, "smoke", "bf16", data=published, work=tmp_path / "work", out=tmp_path / "out")
    with pytest.raises(DepthlrError):
        run_job(other, FOREVER)
    assert {file: file.read_bytes() for file in before} == before


def test_lost_facts_are_made_up_for_by_the_store(job) -> None:
    done = job(CIFAR10_CNN)
    assert run_job(done, FOREVER)
    before = facts(done)
    done.facts.unlink()
    assert run_job(done, FOREVER)
    for key in ("device", "precision", "versions", "data", "complete", "cells"):
        assert facts(done)[key] == before[key]


def test_a_finished_setting_needs_no_time_and_keeps_its_times(job) -> None:
    done = job(VIT_384_EPOCH_3)
    assert run_job(done, FOREVER)
    before = facts(done)["carried_seconds"]
    assert before > 0
    assert run_job(done, CellsLeft(0))
    assert facts(done)["carried_seconds"] >= before  # looking it up again counts too


def test_fewer_cells_never_overwrite_more(job) -> None:
    more, fewer = job(CIFAR10_CNN), job(CIFAR10_CNN, "elsewhere")
    assert not run_job(more, CellsLeft(5))
    cells = facts(more)["cells"]
    assert not run_job(fewer, CellsLeft(1))
    assert facts(more)["cells"] == cells == len(table(more))


def test_every_machine_that_trained_a_sweep_is_named_in_order(job, monkeypatch) -> None:
    moved = job(CIFAR10_CNN)
    laptop = Environment("CPU, 8 cores", "2.13.0", "0.1.0", "3.11.7")
    server = Environment("NVIDIA H200", "2.11.0", "0.1.0", "3.12.3")
    monkeypatch.setattr("depthlr.study.run.current_environment", lambda: laptop)
    assert not run_job(moved, CellsLeft(2))
    assert facts(moved)["environments"] == [vars(laptop)]
    monkeypatch.setattr("depthlr.study.run.current_environment", lambda: server)
    assert run_job(moved, FOREVER)
    assert facts(moved)["environments"] == [vars(laptop), vars(server)]


def test_a_sweep_that_is_stopped_before_its_first_cell_leaves_no_table(job, monkeypatch) -> None:
    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "sweep_study", stopped)
    with pytest.raises(KeyboardInterrupt):
        run_job(job(CIFAR10_CNN), FOREVER)
    assert not job(CIFAR10_CNN).out.file("json").exists()


@pytest.mark.parametrize("same", [True, False])
def test_rates_carried_from_another_rate_do_not_stay_beside_a_new_table(job, monkeypatch, same) -> None:
    done = job(VIT_384_EPOCH_3)
    assert run_job(done, FOREVER)
    table = done.out.file("carried.csv")
    if not same:
        rows = table.read_text().splitlines()
        copied = next(row.split(",")[4] for row in rows if row.startswith("copy,"))
        table.write_text(table.read_text().replace(copied, "0.123"))

    def late(*arguments, **options):
        raise OutOfTime

    monkeypatch.setattr(sweep, "train_carried", late)
    assert not run_job(done, FOREVER)
    assert table.is_file() == same


def test_a_plan_of_another_rate_is_worked_out_anew(job) -> None:
    done = job(VIT_384_EPOCH_3)
    assert run_job(done, FOREVER)
    before = table(done, "carried.csv")
    plan = done.work.file("plan.csv")
    copied = next(row["rate"] for row in before if row["rule"] == "copy")
    plan.write_text(plan.read_text().replace(copied, "0.123"))
    assert run_job(done, FOREVER)
    assert table(done, "carried.csv") == before
