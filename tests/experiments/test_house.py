"""`python -m experiments.house` counts what it says, on a package small enough to count by hand."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import depthlr
from depthlr.cli.app import VERBS
from experiments.house import BLOCK, ROOT, House, dense, measure, repeated_lines, sentence_lengths, table

BLOCK_TEXT = "".join(f"value_{number} = {number}\n" for number in range(BLOCK))
FILES = {
    "__init__.py": "from depthlr.law import power\n\n__all__ = ['power']\n",
    "law/__init__.py": "from depthlr.law.power import power\n",
    "law/power.py": '"""Docstring,\nof two lines."""\n\nimport math\n\n\ndef power(x):\n    """One."""\n    # why\n'
    "    if x < 0:\n        raise ValueError(x)\n    from depthlr.law import rules\n\n    return rules.two(x)\n",
    "law/rules.py": "def two(x):\n    try:\n        return x * 2\n    except TypeError:\n        raise\n",
    "cli/__init__.py": "",
    "cli/app.py": "from depthlr.cli.depth import depth\nfrom depthlr.cli.plain import Console\n",
    "cli/depth.py": "from depthlr.cli.plain import Console\n\n\ndef depth():\n    pass\n\n\ndef two():\n    pass\n",
    "cli/plain.py": "class Console:\n    pass\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "src" / "depthlr" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "README.md").write_text(
        "# A title\n\nOne two three. Four `five six` [seven](link) eight?\n\n- Nine\n  ten\n"
    )
    (tmp_path / "docs").mkdir()
    return tmp_path


def test_lines_of_code_are_without_blanks_comments_and_docstrings(root: Path) -> None:
    power = House(root).modules["depthlr.law.power"]
    assert [power.lines[number - 1].strip() for number in power.code_lines] == [
        "import math",
        "def power(x):",
        "if x < 0:",
        "raise ValueError(x)",
        "from depthlr.law import rules",
        "return rules.two(x)",
    ]
    assert len(power.docstring_lines) == 3
    assert len(power.import_lines) == 2


def test_reachable_modules_are_followed_through_packages_and_into_functions(root: Path) -> None:
    house = House(root)
    assert house.public_functions() == {"power": "depthlr.law.power"}
    assert house.reachable("depthlr.law.power") == {"depthlr.law.power", "depthlr.law.rules"}
    assert house.verbs() == {"depth": "depthlr.cli.depth"}
    assert house.reachable("depthlr.cli.depth") == {"depthlr.cli.depth", "depthlr.cli.plain"}


def test_functions_that_are_imported_lazily_are_followed_too(root: Path) -> None:
    package = root / "src" / "depthlr"
    (package / "__init__.py").write_text(
        "if TYPE_CHECKING:\n    from depthlr.law import power\n    from depthlr.law import rules\nelse:\n    pass\n"
    )
    (package / "cli" / "app.py").write_text('VERBS = {"depth": "Count it."}\n')
    house = House(root)
    assert house.public_functions() == {"power": "depthlr.law.power"}
    assert house.verbs() == {"depth": "depthlr.cli.depth"}


def test_this_checkout_has_a_row_for_every_public_function_and_verb() -> None:
    house = House(ROOT)
    public = {name for name in depthlr.__all__ if inspect.isfunction(getattr(depthlr, name))}
    assert set(house.public_functions()) == public
    assert set(house.verbs()) == set(VERBS)
    assert set(house.verbs().values()) <= set(house.modules)


def test_the_rows_of_the_table(root: Path) -> None:
    rows = measure(root)
    assert rows["files"] == "8"
    assert rows["public names defined in several modules"] == "1"
    assert rows["`raise` / `try`"] == "1 / 1", "a bare raise passes an error on"
    assert rows["modules reachable from `power()`"] == "2"
    assert rows["words in a sentence, README"] == f"{(3 + 4 + 2) / 3:.1f}"
    assert rows["words in a sentence, docs"] == "-"
    text = table({"before": rows | {"gone": "1"}, "after": rows})
    assert text.splitlines()[0] == "|  | before | after |"
    assert "| files | 8 | 8 |" in text
    assert "| gone | 1 | - |" in text


def test_a_block_of_lines_that_occurs_twice_is_repeated(root: Path) -> None:
    assert repeated_lines(list(House(root).modules.values())) == 0
    (root / "src" / "depthlr" / "one.py").write_text(BLOCK_TEXT + "first = 1\n")
    (root / "src" / "depthlr" / "other.py").write_text("second = 2\n" + BLOCK_TEXT)
    assert repeated_lines(list(House(root).modules.values())) == 2 * BLOCK


def test_a_dense_statement_holds_two_comprehensions_or_conditions_of_its_own() -> None:
    def count(text: str) -> int:
        return sum(dense(node) for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt))

    assert count("a = [x for x in y]") == 0
    assert count("a = [x if x else 0 for x in y]") == 1
    assert count("a = sorted([x for x in y], key=lambda x: -x)") == 1
    assert count("def f():\n    a = [x for x in y]\n    return [x for x in a]") == 0
    assert count("for x in [a for a in (b for b in c)]:\n    pass") == 1


def test_sentences_are_those_of_running_text() -> None:
    text = (
        "One two.\nThree four five! **Six**\n\n| a. b | c |\n|---|---|\n\n```\ncode. more code.\n```\n1. seven eight\n"
    )
    assert sentence_lengths(text) == [2, 3, 1, 2]


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 450
