"""Tables and notes: the user's own text stands in them as it was written."""

from __future__ import annotations

import pytest

from depthlr.cli.output import print_note, print_table
from depthlr.cli.train_study import SweepProgress
from experiments.landscape import study

TEXTS = ["[/a]", "[bold]", "[bold]x[/bold]", ":smile:", "\\[a]", 'net?path="[/a]"']


@pytest.mark.parametrize("text", TEXTS)
def test_a_users_text_is_written_as_it_is(capsys, text):
    print_table([text], [[text]], title=text)
    print_note(text)
    with SweepProgress(study()) as progress:
        progress._note(text)
    out, err = capsys.readouterr()
    assert out.count(text) == 3
    assert err == f"{text}\n{text}\n"
