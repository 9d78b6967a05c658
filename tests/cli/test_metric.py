"""`--metric`: verbs that read a sweep judge its cells by any metric that was stored, and say which one they used."""

from __future__ import annotations

import json

import pytest

from depthlr.study import read_results, to_csv

STUDY = """
[model]
spec = "mlp?width=16"
vary = "layers"
sizes = [1, 2, 4]
[data]
validation = 300
[training]
steps = 20
batch = 32
metric = "validation"
evaluate_at = [0.5]
[search]
kind = "grid"
low = 0.01
high = 10.0
points = 5
seeds = 1
"""
LABELS = {
    "validation": "validation loss (nats)",
    "validation@0.5": "validation loss after 0.5 of the steps (nats)",
    "budget": "training loss, mean of 20 steps (nats)",
    "error": "validation error",
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("metric")
    (folder / "s.toml").write_text(STUDY)
    return folder / "s.sqlite"


@pytest.fixture
def run(run, study, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0})
    if not study.exists():
        code, out, err = run("sweep", str(study.with_suffix(".toml")))
        assert code == 0
        assert "mean validation loss" in " ".join(out.split())
        assert "rates are judged by the validation loss (nats)" in err
    return run


@pytest.mark.parametrize("metric", LABELS)
def test_export_and_fit_use_the_metric_and_say_so(run, study, metric: str) -> None:
    expected = read_results(study).by(metric)
    code, out, err = run("export", str(study), "--metric", metric)
    assert (code, out) == (0, to_csv(expected))
    assert f"the column loss is the {LABELS[metric]}\n" in err
    code, out, err = run("fit", str(study), "--metric", metric, "--json")
    assert (code, json.loads(out)["metric"]) == (0, metric)
    assert json.loads(out)["slope"] == expected.fit("depth").slope
    assert f"rates are judged by the {LABELS[metric]}\n" in run("fit", str(study), "--metric", metric)[2]


@pytest.mark.parametrize("metric", LABELS)
def test_reports_and_plots_say_the_metric(run, study, metric: str, tmp_path) -> None:
    found = json.loads(run("report", str(study), "--format", "json", "--metric", metric)[1])
    assert (found["metric"], found["run"]["Judged by"]) == (metric, LABELS[metric])
    assert found["optima"][0]["loss"] == read_results(study, metric).curves[0].optimum.loss
    assert ("--metric" in found["commands"]) == (metric != "validation")
    assert LABELS[metric] in run("report", str(study), "--out", "-", "--metric", metric)[1]
    code, _, err = run("plot", str(study), "--out", str(tmp_path / "p.svg"), "--kind", "scaling", "--metric", metric)
    assert code == 0
    assert f"rates are judged by the {LABELS[metric]}\n" in err


@pytest.mark.parametrize(
    "arguments", [("fit",), ("export",), ("report", "--out", "-"), ("plot", "--out", "p.png"), ("serve",)]
)
def test_a_metric_that_was_not_stored_is_one_sentence_with_the_stored_ones(run, study, arguments, tmp_path) -> None:
    verb, *rest = arguments
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        code, out, err = run(verb, str(study), *rest, "--metric", "last_epoch")
    assert (code, out) == (2, "")
    assert err.endswith("choose from validation, budget, validation@0.5, error.\n")
    assert "The metric 'last_epoch' was not stored" in " ".join(err.split())
    assert not list(tmp_path.iterdir())


def test_a_table_has_no_metric(run, tmp_path) -> None:
    (tmp_path / "optima.csv").write_text("depth,rate\n4,0.1\n8,0.05\n")
    code, _, err = run("fit", str(tmp_path / "optima.csv"), "--metric", "error")
    assert code == 2
    assert "--metric are for studies" in err
