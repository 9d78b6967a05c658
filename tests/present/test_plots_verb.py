"""`depthlr plot`: a file of the kind its name says, equal for equal studies, or one sentence."""

from __future__ import annotations

import matplotlib
import pytest
import typer

from depthlr.cli.report import plot_command
from depthlr.errors import DepthlrError
from depthlr.study import sweep
from experiments.landscape import LandscapeExecutor, landscape, study

matplotlib.use("Agg")

app = typer.Typer()
app.command()(plot_command)
BEGINS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    given = landscape(7, study(sizes=(3, 6, 12)))
    path = tmp_path_factory.mktemp("plot") / "s.sqlite"
    sweep(given.study, LandscapeExecutor(given), path, depths={3: 4, 6: 7, 12: 13})
    return str(path)


def run(*arguments):
    app([str(a) for a in arguments], standalone_mode=False)


@pytest.mark.parametrize("form", BEGINS)
@pytest.mark.parametrize("kind", ["landscape", "scaling"])
def test_equal_studies_give_equal_files(swept, tmp_path, kind, form):
    one, two = tmp_path / f"one.{form}", tmp_path / f"two.{form}"
    for out in (one, two):
        run(swept, "--kind", kind, "--out", out)
    assert one.read_bytes().startswith(BEGINS[form])
    assert one.read_bytes() == two.read_bytes()
    run(swept, "--kind", kind, "--out", two, "--dark")
    assert one.read_bytes() != two.read_bytes()


def test_rules_and_sizes_can_be_asked_for(swept, tmp_path):
    out = tmp_path / "x.svg"
    run(swept, "--kind", "scaling", "--over", "size", "--rule", "copy", "--rule", "law", "--out", out)
    assert 'id="rule-copy"' in out.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["S", "--out", "x.jpg"], "ends in .png, .svg or .pdf"),
        (["none.sqlite", "--out", "x.png"], "There is no file"),
        (["S", "--kind", "scaling", "--rule", "lwa", "--out", "x.png"], "There is no rule"),
        (["S", "--out", "/proc/none/x.png"], "No such file"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(swept, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((DepthlrError, OSError), match=message) as caught:  # `main` prints both
        run(*[swept if a == "S" else a for a in arguments])
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
