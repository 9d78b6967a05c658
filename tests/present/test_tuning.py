"""The page of `depthlr tune` says what was found, escapes what users wrote, and needs no network."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from math import inf

import numpy as np
import pytest
from tests.present.made_results import results_of
from tests.present.test_report import HOSTILE, Tags

from depthlr.formatting import rate_text
from depthlr.law.carried_rate import CarriedRate
from depthlr.present.page import policy
from depthlr.present.tuning import next_steps, notes_of, recommended_rate, tuning_page
from depthlr.study import Models, Search, Study, Training, parse_study
from depthlr.study.tune import CHECK_RECORD, Tuning

STUDY = Study("recipe", Models("mlp?width=8", "layers", (3, 12)), Training(steps=200), search=Search(seeds=(0, 1)))
CURVE = {1e-3: 2.0, 1e-2: 1.0, 1e-1: 1.5, 1.0: inf}
CARRIED = CarriedRate(5e-3, "constant", 4, 13, 0.5, "equal widths.", ("the widths differ.",), 2e-3, 1.2e-2)
SOURCE = results_of({(3, 0): CURVE, (3, 1): CURVE})
CHECK = results_of({(12, 0): {2.5e-3: 1.2, 5e-3: 1.1, 1e-2: inf}})
TUNING = Tuning(STUDY, 1e-2, SOURCE, CARRIED)
CHECKED = replace(TUNING, checked=CHECK)


def words(tuning: Tuning) -> str:
    """The text of the page, without its tags, its style and its program."""
    text = re.sub(r"<(style|script).*?</\1>", "", tuning_page(tuning), flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def plot_of(tuning: Tuning) -> dict:
    return json.loads(Tags(tuning_page(tuning)).scripts[0])["plot"]


def test_it_says_the_rate_its_interval_the_rule_and_the_evidence():
    said = words(TUNING)
    assert "5.00e-3 80% interval 2.00e-3 to 1.20e-2" in said
    assert "source 3 4 1.00e-2 target 12 13 5.00e-3 2.00e-3 to 1.20e-2" in said
    assert "constant: the tuned rate × 0.5" in said
    for text in (CARRIED.assumes, CARRIED.evidence, *CARRIED.notes):
        assert text in said


def test_it_says_what_each_part_cost():
    assert "source 8 s, 8 runs carrying without training no check" in words(TUNING)
    said = words(CHECKED)
    assert "11 s source 8 s, 8 runs carrying without training check 3 s, 3 runs" in said
    assert "8 runs, 2 seeds, 8 s of training" in said
    assert "3 runs, 1 seed, 3 s of training" in said


def test_it_shows_the_check_and_what_such_a_check_is_worth():
    said = words(CHECKED)
    assert "2.50e-3 1.2000 5.00e-3 1.1000 lowest 1.00e-2 diverged" in said
    assert "In the check the target trained at this rate." in said
    assert CHECK_RECORD in said
    full = words(replace(CHECKED, share=1.0))
    assert "In the check, by full runs, it had the lowest loss of three rates." in full
    assert CHECK_RECORD not in full
    fails = results_of({(12, 0): {2.5e-3: 1.2, 5e-3: inf, 1e-2: inf}})
    assert "did not train at the carried rate" in words(replace(TUNING, checked=fails))
    guesses = results_of({(12, 0): {2.5e-3: 2.2, 5e-3: 2.3, 1e-2: 2.3}})
    assert "hardly learned at this rate" in words(replace(TUNING, checked=guesses))
    assert "The check was not run." in words(TUNING)


def test_what_to_do_next_depends_on_what_was_done():
    for tuning in (TUNING, CHECKED):
        steps = next_steps(tuning)
        assert steps[0] == "train the target at 5.00e-3"
        assert "2.00e-3 and 1.20e-2" in steps[1]
        assert all(step[1:] in words(tuning) for step in steps)
    assert "--verify" in next_steps(TUNING)[-1]
    assert "--share 1" in next_steps(CHECKED)[-1]
    assert next_steps(replace(CHECKED, share=1.0)) == [
        "use 5.00e-3: of three full runs with one seed it had the lowest loss",
        "if you can afford two more runs, train it also at 2.00e-3 and 1.20e-2, and keep the best",
    ]
    assert len(next_steps(replace(TUNING, carried=replace(CARRIED, low=None, high=None)))) == 2


def test_a_loss_above_that_of_the_first_step_is_no_training():
    """The target blew up, though every loss is finite."""
    check = results_of({(12, 0): {2.5e-3: 40.0, 5e-3: 120.0, 1e-2: 700.0}})
    first = np.full(1, 4.2, "<f4").tobytes()
    blown = replace(check, records=tuple(replace(record, losses=first) for record in check.records))
    for share in (0.1, 1.0):
        tuning = replace(TUNING, checked=blown, share=share)
        assert recommended_rate(tuning) is None
        assert "trained at none of three rates" in next_steps(tuning)[0]
        assert "did not train at the carried rate" in words(tuning)


def test_a_rate_outside_its_rules_scope_is_swept_around():
    tuning = replace(TUNING, carried=replace(CARRIED, in_scope=False, low=None, high=None))
    assert next_steps(tuning)[0] == "sweep the target around 5.00e-3: the notes say why the rule may not hold here"


def test_notes_say_how_finely_and_by_what_the_source_was_tuned():
    near = replace(CARRIED, low=4.8e-3, high=5.2e-3)
    assert "decades apart, and half of the interval is" in notes_of(replace(TUNING, carried=near))[-1]
    assert "decades apart" not in "".join(notes_of(TUNING))
    assert any("training.metric" in note for note in notes_of(TUNING))
    judged = replace(STUDY.training, metric="validation")
    by_validation = replace(STUDY, training=judged, data=replace(STUDY.data, validation=0.1))
    assert not any("training.metric" in note for note in notes_of(replace(TUNING, study=by_validation)))


@pytest.mark.parametrize(
    ("losses", "share", "first"),
    [
        ((1.0, 1.1, inf), 1.0, "use 2.50e-3: of three full runs with one seed it had the lowest loss"),
        ((1.0, inf, inf), 1.0, "use 2.50e-3: of three full runs with one seed it had the lowest loss"),
        ((1.0, 1.1, inf), 0.1, "train the target at 5.00e-3"),  # a short check does not choose between rates
        ((1.0, inf, inf), 0.1, "train the target at 2.50e-3: in the check it did not train at 5.00e-3"),
        ((inf, inf, inf), 0.1, "train the target below 2.00e-3: in the check it trained at none of three rates"),
        ((inf, inf, inf), 1.0, "train the target below 2.00e-3: in the check it trained at none of three rates"),
        ((2.2, 2.3, 2.3), 0.1, "train the target at 5.00e-3"),
    ],
)
def test_the_next_step_follows_the_check(losses: tuple[float, ...], share: float, first: str):
    check = results_of({(12, 0): dict(zip((2.5e-3, 5e-3, 1e-2), losses, strict=True))})
    steps = next_steps(replace(TUNING, checked=check, share=share))
    assert steps[0] == first
    assert ("larger --share" in steps[-1]) == (losses[0] == 2.2)
    if steps[0].startswith("use"):  # the lowest loss is at the end of the three rates
        assert "train it also at 1.25e-3" in steps[1]
        assert "by full runs, 2.50e-3 had a lower loss than the carried rate." in words(
            replace(TUNING, checked=check, share=share)
        )


def test_the_plot_has_the_source_s_curves_and_both_rates():
    plot = plot_of(TUNING)
    assert [curve[:2] for curve in plot["curves"]] == [[3, 0], [3, 1]]
    tuned, carried = plot["marks"]
    assert (tuned["rate"], tuned["interval"]) == (1e-2, None)
    assert (carried["rate"], carried["interval"]) == (5e-3, [2e-3, 1.2e-2])


def test_without_a_sweep_of_the_source_there_is_no_plot():
    given = replace(TUNING, source=None)
    assert plot_of(given)["curves"] == []
    assert 'aria-labelledby="landscape-title" hidden' in tuning_page(given)
    assert "source given" in words(given)
    assert "given rate of the source" in words(given)
    assert "tuned rate of the source" in words(TUNING)


@pytest.mark.parametrize(
    ("tuning", "options"),
    [
        (TUNING, "--rule constant"),
        (CHECKED, "--rule constant --verify"),
        (replace(CHECKED, share=0.5), "--rule constant --verify --share 0.5"),
        (replace(TUNING, source=None), "--rule constant --rate 0.01"),
    ],
)
def test_its_commands_make_the_same_study_and_page(tuning, options):
    shell = unescape(re.search(r"<code>(.*)</code>", tuning_page(tuning), flags=re.DOTALL)[1])
    toml, _, command = shell.partition("<<'END'\n")[2].partition("END\n")
    assert parse_study(toml) == STUDY
    assert command == f"depthlr tune recipe.toml {options} --report recipe.html\n"


def test_nothing_a_user_wrote_becomes_markup():
    def failing(reason: str) -> Tuning:
        records = tuple(replace(record, loss=inf, failure=reason) for record in CHECK.records)
        return replace(CHECKED, checked=replace(CHECK, records=records))

    hostile = replace(
        failing(HOSTILE),
        study=replace(STUDY, name=HOSTILE),
        carried=replace(CARRIED, notes=(HOSTILE,), assumes=HOSTILE, evidence=HOSTILE),
    )
    tags = [tag for tag, _ in Tags(tuning_page(hostile)).tags]
    assert tags == [tag for tag, _ in Tags(tuning_page(failing("out of memory"))).tags]
    assert HOSTILE in unescape(tuning_page(hostile))


def test_it_needs_no_network():
    text = tuning_page(CHECKED)
    tags = Tags(text)
    links = {value for _, found in tags.tags for key, value in found.items() if key in ("href", "src", "action")}
    assert links == {"data:,"}
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert next(found["content"] for tag, found in tags.tags if "http-equiv" in found) == policy()
    assert tuning_page(CHECKED) == text


def test_the_notes_of_the_sweep_are_shown():
    cut_off = results_of({(3, 0): {1e-4: 1.0, 1e-3: 2.0}, (3, 1): CURVE})
    tuning = replace(TUNING, source=cut_off)
    assert cut_off.notes
    assert all(note in words(tuning) for note in cut_off.notes)
    assert rate_text(TUNING.rate) in words(tuning)
