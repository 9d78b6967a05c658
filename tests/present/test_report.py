"""The report says what the results say, in every form, and escapes what it did not write itself."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import shlex
import sqlite3
import tomllib
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import typer

from depthlr.cli.report import report_command
from depthlr.data.digits import load_digits
from depthlr.errors import DepthlrError
from depthlr.formatting import rate_text, signed
from depthlr.law.rules import LAW_EXPONENT
from depthlr.present.findings import findings
from depthlr.present.page import FEWEST, plot_data, policy, script_json, thin
from depthlr.present.report import render_report
from depthlr.study import (
    Environment,
    Models,
    Search,
    Study,
    Training,
    open_store,
    parse_study,
    read_results,
    read_snapshot,
    sweep,
)
from depthlr.study.record import Judge, make_record
from depthlr.training.cell import Cell, Outcome
from experiments.landscape import LandscapeExecutor, landscape

STUDY = Study(
    "bowls",
    Models("mlp?width=8", "layers", (3, 6, 12)),
    Training(steps=2),
    search=Search("grid", points=30, seeds=(0, 1, 2)),
)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & ' \" ${x} {{y}} `z`"


DIGITS = load_digits()
HERE = Environment("CPU, 2 cores", "2.13.0+cpu", "0.1.0", "3.11.7")
THERE = Environment("NVIDIA H200", "2.11.0", "0.1.0", "3.12.3")


def written(path, study=STUDY, depths=True, examples=DIGITS):
    """A study's file; without examples its cells are those of another program."""
    made = landscape(1, study)
    counted = {size: size + 2 for size in study.model.sizes} if depths else None
    sweep(study, LandscapeExecutor(made), path, examples=examples, depths=counted, environment=HERE)
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return written(tmp_path_factory.mktemp("report") / "bowls.sqlite")


class Tags(HTMLParser):
    """Every tag with its attributes, and the text of every script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside = ""
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, text):
        if self.inside in ("script", "style"):
            getattr(self, f"{self.inside}s").append(text)


def test_the_answer_comes_first_and_is_the_fit_s(path):
    text, fit = render_report(path), read_results(path).fit("depth")
    answer = text[text.index('id="answer"') : text.index("The rate to use")]
    assert f"<sup>{signed(fit.slope)}</sup>" in answer
    assert all(signed(end) in answer for end in fit.interval)
    assert signed(read_results(path).fit("size").slope) in answer


def test_every_size_has_its_rate_and_deeper_ones_the_fit_s(path):
    results = read_results(path)
    rows = json.loads(render_report(path, "json"))["rates"]
    assert [row["size"] for row in rows] == [3, 6, 12, 24, 48, 96]
    assert [row["depth"] for row in rows] == [5, 8, 14, 26, 50, 98]  # counted as size + 2, a straight line
    for row in rows:
        if row["seeds"]:
            best = [c.optimum.rate for c in results.curves if c.size == row["size"] and not c.optimum.at_edge]
            assert math.log(row["rate"]) == pytest.approx(np.log(best).mean())
        else:
            assert row["rate"] == pytest.approx(results.fit("depth").predict(row["depth"]))
        assert row["interval"][0] < row["rate"] < row["interval"][1]
        assert row["law"] == pytest.approx(rows[0]["rate"] * (row["depth"] / 5) ** LAW_EXPONENT)
        assert all(rate_text(row["rate"]) in render_report(path, form) for form in ("html", "markdown"))


def test_without_depths_the_report_is_over_the_sizes(tmp_path):
    path = written(tmp_path / "x.sqlite", depths=False)
    assert findings(read_snapshot(path)).over == "size"
    assert "rate ∝ layers" in render_report(path)


def test_the_commands_make_the_very_same_study(path, tmp_path):
    for name in ("bowls", HOSTILE, "../../etc", "-rf", "名"):
        study = replace(STUDY, name=name)
        shell = json.loads(render_report(written(tmp_path / f"{hash(name)}.sqlite", study), "json"))["commands"]
        toml = shell[shell.index("\n") + 1 : shell.index("END\ndepthlr")]
        assert parse_study(toml) == study
        file = re.match(r"cat > (\S+\.toml) <<'END'\n", shell)[1]
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", file)


@pytest.mark.parametrize("form", ["html", "markdown", "json"])
def test_of_cells_that_another_program_trained_it_says_what_is_known_and_nothing_else(tmp_path, form):
    study = replace(STUDY, model=replace(STUDY.model, spec="my_package.models:build"))
    told = unescape(render_report(written(tmp_path / "own.sqlite", study, examples=None), form))
    described = ('"digits"', "on digits", "sgd", "SGD", "batch = 128", '"batch": 128', "cross_entropy", "nats")
    for unknown in (*described, "Trained on", "depthlr sweep", "cat >"):
        assert unknown not in told
    page = f"depthlr report {tmp_path}/own.sqlite --out {tmp_path}/own.html"
    known = ("my_package.models:build", "another program", page)
    assert all(fact in unescape(told).replace("\\", "") for fact in known)
    own = render_report(written(tmp_path / "ours.sqlite"), form)
    assert "depthlr sweep bowls.toml" in own
    assert "another program" not in own


@pytest.mark.parametrize("form", ["html", "markdown", "json"])
def test_the_report_of_a_command_names_it_and_repeats_it(tmp_path, monkeypatch, form):
    monkeypatch.chdir(tmp_path)
    command = 'python "my train.py" --note "<u>&" --lr {rate} --layers {size} --seed {seed}'
    training = Training(command=command, result="out/{size}-{seed}-{rate}.json", key="eval_loss")
    study = Study("own", Models(sizes=(3, 6, 12)), training, search=STUDY.search)
    text = render_report(written("mine.sqlite", study, depths=False, examples=None), form)
    assert "<u>" not in text or form != "html"
    told = unescape(text).replace("\\", "")
    for known in (command, "eval_loss", "out/{size}-{seed}-{rate}.json"):
        assert known.replace('"', "") in told.replace('"', "")
    assert "depthlr sweep own.toml --out mine.sqlite" in told
    assert "depthlr report mine.sqlite --out mine.html" in told
    assert "another program" not in told
    assert '"digits"' not in told
    shell = json.loads(render_report("mine.sqlite", "json"))["commands"]
    assert parse_study(shell[shell.index("\n") + 1 : shell.index("END\ndepthlr")]) == study


@pytest.mark.parametrize("name", ["runs/my study.sqlite", "-x.sqlite", "$(id);.sqlite", "<img src=x>.sqlite"])
def test_the_commands_name_the_file_that_was_given(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    written(name)
    *_, sweeps, reports = json.loads(render_report(name, "json"))["commands"].splitlines()
    assert Path(shlex.split(sweeps)[-1]) == Path(name)
    _, _, file, _, out = shlex.split(reports)
    assert (Path(file), Path(out)) == (Path(name), Path(name).with_suffix(".html"))
    assert not file.startswith("-")
    assert "<img" not in render_report(name)


def test_nothing_a_user_wrote_becomes_markup(tmp_path):
    plain, hostile = (
        Tags(render_report(written(tmp_path / f"{index}.sqlite", replace(STUDY, name=name))))
        for index, name in enumerate(("bowls", HOSTILE))
    )
    assert hostile.tags[3:] == plain.tags[3:]
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in plain.tags]


def test_markdown_keeps_a_hostile_name_as_text(tmp_path):
    text = render_report(written(tmp_path / "x.sqlite", replace(STUDY, name="<b> | `x` ``` [a](b)")), "markdown")
    assert text.splitlines()[0] == r"# \<b\> \| \`x\` \`\`\` \[a\]\(b\)"
    assert text.count("```") == 2
    toml = text[text.index("'END'\n") + 6 : text.index("END\ndepthlr")]
    assert tomllib.loads(toml)["name"] == "<b> | `x` ``` [a](b)"


@pytest.mark.parametrize("text", ["</script>", "<!--<script>", "a & b", "\u2028\u2029", "\\u003c", '"'])
def test_json_in_a_script_reads_back_and_cannot_end_it(text):
    inside = script_json({text: [text]})
    assert json.loads(inside) == {text: [text]}
    assert not set(inside) & set("<>&\u2028\u2029")


def test_the_policy_allows_our_script_and_style_alone(path):
    tags = Tags(render_report(path))
    rules = dict(rule.split(" ", 1) for rule in policy().split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    assert "connect-src" not in rules
    assert "unsafe" not in policy()
    for rule, text in (("script-src", tags.scripts[-1]), ("style-src", tags.styles[0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    meta = next(found for tag, found in tags.tags if tag == "meta" and "http-equiv" in found)
    assert meta["content"] == policy()


def test_the_page_names_no_other_place(path):
    text = render_report(path)
    links = {value for _, found in Tags(text).tags for key, value in found.items() if key in ("href", "src", "action")}
    assert links == {"data:,"}
    assert not [key for _, found in Tags(text).tags for key in found if key.startswith("on") or key == "style"]
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched


def test_equal_studies_give_equal_reports(path):
    assert render_report(path) == render_report(path)


@pytest.mark.parametrize("form", ["html", "markdown", "json"])
def test_it_names_what_ran_the_study_and_not_what_writes_the_report(path, tmp_path, monkeypatch, form):
    text = render_report(path, form)
    assert str(HERE) in unescape(text).replace("\\", "")
    monkeypatch.setattr("torch.__version__", "9.9.9")
    monkeypatch.setattr("platform.python_version", lambda: "9.9.9")
    assert render_report(path, form) == text
    moved = tmp_path / "moved.sqlite"
    with open_store(moved, STUDY) as store:
        for where in (HERE, THERE):
            store.record_environment(where)
    assert f"{HERE}, then {THERE}" in unescape(render_report(moved, form)).replace("\\", "")


def test_json_has_the_environments_one_by_one_and_an_older_file_none(path, tmp_path):
    assert json.loads(render_report(path, "json"))["environments"] == [vars(HERE)]
    with open_store(tmp_path / "old.sqlite", STUDY, data_digest="11"):
        pass
    old = json.loads(render_report(tmp_path / "old.sqlite", "json"))
    assert (old["environments"], old["run"]["Trained on"]) == ([], "not recorded")


def test_the_law_is_drawn_through_the_centre_and_tabled_from_the_first_rate(path):
    found = findings(read_snapshot(path))
    for over, drawn in plot_data(found)["fits"].items():
        fit = found.slopes[over]
        for log in (fit.centre, 0.0, 2.0):
            assert 10 ** (drawn["law"] + LAW_EXPONENT * log) == pytest.approx(fit.by_law(10**log))
    assert found.law_from == "5"
    assert all("law from 5" in render_report(path, form) for form in ("html", "markdown"))


def test_notes_are_shown(tmp_path):
    study = replace(STUDY, search=replace(STUDY.search, low=1.0, high=2.0))  # all optima lie elsewhere
    path = written(tmp_path / "x.sqlite", study)
    notes = read_results(path).notes
    assert notes
    for form in ("html", "markdown"):
        said = unescape(render_report(path, form)).replace("\\", "")
        assert notes[0] in said
    assert json.loads(render_report(path, "json"))["notes"] == list(notes)


def test_of_very_many_notes_the_first_and_the_last_are_shown(tmp_path):
    study = replace(STUDY, search=replace(STUDY.search, low=1.0, high=2.0, points=4, seeds=tuple(range(40))))
    path = tmp_path / "x.sqlite"
    with open_store(path, study) as store:
        for seed in study.search.seeds:
            store.put(
                make_record(Cell(3, seed, 1.0), Outcome(np.array([1.0], dtype=np.float32), 0.1, False), Judge("budget"))
            )
    notes = read_results(path).notes
    assert len(notes) == 41
    shown = json.loads(render_report(path, "json"))["notes"]
    assert shown == [*notes[:29], "and 11 more of this kind", notes[-1]]
    assert all("and 11 more of this kind" in render_report(path, form) for form in ("html", "markdown"))


def test_a_study_without_a_cell_has_a_report(tmp_path):
    with open_store(tmp_path / "x.sqlite", STUDY):
        pass
    for form in ("html", "markdown", "json"):
        assert "not finished" in render_report(tmp_path / "x.sqlite", form)


def test_a_study_whose_every_cell_diverged_has_a_report(tmp_path):
    with open_store(tmp_path / "x.sqlite", STUDY) as store:
        for rate in STUDY.search.rates:
            store.put(
                make_record(Cell(3, 0, rate), Outcome(np.array([np.nan], dtype=np.float32), 0.1, True), Judge("budget"))
            )
    for form in ("html", "markdown", "json"):
        assert "every rate diverged" in render_report(tmp_path / "x.sqlite", form)
    curve = plot_data(findings(read_snapshot(tmp_path / "x.sqlite")))["curves"][0]
    assert curve[3] == [None] * len(curve[3])
    assert curve[4] == -1


@pytest.mark.parametrize("count", [1, 11, 100, 5000])
def test_thinning_keeps_the_ends_the_optimum_and_its_neighbours(count):
    best = int(np.random.default_rng(count).integers(count))
    kept = thin(count, best, FEWEST)
    assert kept == sorted(set(kept))
    assert {0, count - 1, best} <= set(kept)
    assert {i for i in range(best - 2, best + 3) if 0 <= i < count} <= set(kept)
    assert len(kept) <= FEWEST + 6


def test_no_optimum_is_lost_to_thinning(path, monkeypatch):
    monkeypatch.setattr("depthlr.present.page.PAGE_POINTS", 1)
    found = findings(read_snapshot(path))
    data = plot_data(found)
    assert max(len(curve[2]) for curve in data["curves"]) < 30
    for curve, drawn in zip(found.curves, data["curves"], strict=True):
        assert data["rates"][drawn[2][drawn[4]]] == pytest.approx(curve.optimum.rate, rel=1e-5)
        assert drawn[3][drawn[4]] == pytest.approx(curve.optimum.loss, rel=1e-4)


def test_a_damaged_record_is_not_shown_and_is_noted(tmp_path):
    path = written(tmp_path / "x.sqlite")
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE cells SET loss = -5 WHERE rowid = 7")
    connection.close()
    assert len(read_snapshot(path).results.damaged) == 1
    assert read_snapshot(path).results == read_results(path)
    assert "damaged" in render_report(path)


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    app.command()(report_command)

    def run(*arguments: str) -> str:
        app(arguments, standalone_mode=False)
        return capsys.readouterr().out

    return run


def test_the_verb_writes_a_page_beside_the_study_and_text_on_stdout(run, tmp_path):
    path = written(tmp_path / "mine.sqlite")
    assert run(str(path)) == ""
    assert (tmp_path / "mine.html").read_text() == render_report(path)
    assert run(str(path), "--format", "markdown") == render_report(path, "markdown")
    assert run(str(path), "--out", "-") == render_report(path)
    run(str(path), "--format", "json", "--out", "new/folder/r.json")
    assert json.loads((tmp_path / "new/folder/r.json").read_text())["cells"] == 270


def test_the_verb_refuses_what_is_no_study_and_never_overwrites_one(run, tmp_path):
    path = written(tmp_path / "mine.sqlite")
    (tmp_path / "text.sqlite").write_text("no study")
    with pytest.raises(DepthlrError, match="There is no file"):
        run("nothing.sqlite")
    with pytest.raises(DepthlrError, match="not a study"):
        run("text.sqlite")
    with pytest.raises(DepthlrError, match="is the study itself"):
        run(str(path), "--out", str(path))
    assert read_results(path).complete
    assert not (tmp_path / "text.html").exists()


def steep(path):
    """A study whose rates fall by 200 decades from one size to the next, so that no float holds the rate of a third."""
    search = Search("grid", low=1e-250, high=1.0, points=6, seeds=(0,))
    study = replace(STUDY, model=replace(STUDY.model, sizes=(1, 2)), search=search)
    with open_store(path, study) as store:
        for size, best in ((1, 1e-50), (2, 1e-200)):
            for rate in search.rates:
                loss = 1 + abs(math.log10(rate / best))
                store.put(
                    make_record(Cell(size, 0, rate), Outcome(np.array([loss], np.float32), 0.1, False), Judge("budget"))
                )
    return path


@pytest.mark.parametrize("form", ["html", "markdown", "json"])
def test_a_rate_that_no_float_holds_is_left_out_and_the_report_stays(tmp_path, form):
    path = steep(tmp_path / "steep.sqlite")
    assert read_results(path).fit().slope < -400
    assert "1.00e-200" in render_report(path, form).replace("1e-200", "1.00e-200")
    assert [row.size for row in findings(read_snapshot(path)).rows] == [1, 2]
