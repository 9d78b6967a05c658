"""What a notebook shows of depths, energies, fits and results: tables, everything from users escaped."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from tests.present.made_results import made_landscape

from depthlr.energy import update_energy
from depthlr.formatting import html_table
from depthlr.trace import effective_depth

EVIL = "<script>alert(1)</script>&\"'"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_table_escapes_all_it_is_given():
    page = Tags(html_table(EVIL, [EVIL], [[EVIL]], [EVIL]))
    assert "script" not in page.seen
    assert page.text == EVIL * 4


def objects():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.ModuleDict({"<script>x": torch.nn.Linear(4, 4), "head": torch.nn.Linear(4, 3)})

        def forward(self, x):
            return self.inner["head"](torch.relu(self.inner["<script>x"](x)))

    x, y = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 3
    results = made_landscape()
    named = replace(results, study=replace(results.study, name=EVIL))
    return {
        "depth": (effective_depth(Net(), x), ("effective depth 2", "<script>x")),
        "energy": (update_energy(Net(), (x, y), torch.nn.functional.cross_entropy), ("mean energy", "<script>x")),
        "fit": (results.fit("depth"), (str(results.fit("depth")),)),
        "results": (named, (EVIL, "best rate")),
    }


@pytest.mark.parametrize("name", ["depth", "energy", "fit", "results"])
def test_notebooks_show_a_table(name):
    shown, words = objects()[name]
    page = Tags(shown._repr_html_())
    assert "table" in page.seen
    assert "script" not in page.seen
    assert all(word in page.text for word in words)
