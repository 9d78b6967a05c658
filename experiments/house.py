"""Size and shape of the source, as one Markdown table: how much a new reader has to read.

python -m experiments.house                                  the files of this checkout
python -m experiments.house --rev 9d4bdee                    a revision beside them, to compare
python -m experiments.house --rev 9d4bdee --rev HEAD~10      several, in this order
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from experiments.pages import markdown_table

ROOT = Path(__file__).parents[1]
PACKAGE = "depthlr"
MEASURED = ("src", "docs", "README.md")  # what is read of a revision
BLOCK = 6  # lines that make a repeated block
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
DENSE = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.Lambda)


@dataclass(frozen=True)
class Source:
    """One Python file."""

    name: str  # of the module
    text: str
    is_package: bool  # an __init__.py, which passes names on

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def docstring_lines(self) -> set[int]:
        """The line numbers that docstrings cover."""
        covered: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
                covered |= _span(node.body[0])
        return covered

    @cached_property
    def code_lines(self) -> list[int]:
        """The line numbers that hold code: no blank line, comment or docstring."""
        kinds = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
        covered: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in kinds:
                covered |= set(range(token.start[0], token.end[0] + 1))
        return sorted(covered - self.docstring_lines)

    @cached_property
    def import_lines(self) -> set[int]:
        found: set[int] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                found |= _span(node)
        return found


class House:
    """A checkout's package and its documents."""

    def __init__(self, root: Path) -> None:
        source = root / "src"
        self.root = root
        self.modules: dict[str, Source] = {}
        for path in sorted((source / PACKAGE).rglob("*.py")):
            name = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
            self.modules[name] = Source(name, path.read_text("utf-8"), path.name == "__init__.py")

    def defining_module(self, module: str, name: str) -> str:
        """The module that `from module import name` ends in, followed through packages that pass the name on."""
        if f"{module}.{name}" in self.modules:
            return f"{module}.{name}"
        source = self.modules.get(module)
        if source is not None and source.is_package:
            for node in source.tree.body:
                if isinstance(node, ast.ImportFrom) and name in [alias.asname or alias.name for alias in node.names]:
                    return self.defining_module(node.module or "", name)
        return module

    def imports(self, module: str) -> set[str]:
        """The package's modules that a module imports, at its top or inside a function."""
        found: set[str] = set()
        for node in ast.walk(self.modules[module].tree):
            if isinstance(node, ast.ImportFrom):
                found |= {self.defining_module(node.module or "", alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        return found & set(self.modules)

    def reachable(self, module: str) -> set[str]:
        """The module and all that it imports, directly or not; packages that only pass names on are left out."""
        found: set[str] = set()
        waiting = [module]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting.extend(self.imports(name))
        return {name for name in found if not self.modules[name].is_package}

    def public_functions(self) -> dict[str, str]:
        """The functions that `import depthlr` gives, with their modules."""
        return self._functions(PACKAGE, prefix="")

    def verbs(self) -> dict[str, str]:
        """The functions that the command line is made of, with their modules."""
        app = f"{PACKAGE}.cli.app"
        if app not in self.modules:
            return {}
        tree = self.modules[app].tree
        files = _entries(tree, "SHARED_FILES")
        listed = {verb: f"{PACKAGE}.cli.{files.get(verb, verb)}" for verb in _entries(tree, "VERBS")}
        return self._functions(app, prefix=f"{PACKAGE}.cli.") | listed

    def _functions(self, module: str, prefix: str) -> dict[str, str]:
        """The functions that a module imports at its top, or for type checkers alone because it imports them lazily."""
        found = {}
        for node in self.modules[module].tree.body:
            statements = [node]
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                statements = node.body
            for statement in statements:
                if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith(prefix):
                    for alias in statement.names:
                        home = self.defining_module(statement.module or "", alias.name)
                        if self._is_function(home, alias.name):
                            found[alias.name] = home
        return found

    def _is_function(self, module: str, name: str) -> bool:
        if module not in self.modules:
            return False
        return any(isinstance(node, ast.FunctionDef) and node.name == name for node in self.modules[module].tree.body)


def measure(root: Path) -> dict[str, str]:
    """The table's rows, by their titles."""
    house = House(root)
    sources = list(house.modules.values())
    lengths = [len(source.lines) for source in sources]
    code = sum(len(source.code_lines) for source in sources)
    nodes = [node for source in sources for node in ast.walk(source.tree)]
    raises = sum(isinstance(node, ast.Raise) and node.exc is not None for node in nodes)  # a bare raise passes one on
    tries = sum(isinstance(node, ast.Try) for node in nodes)
    dense_statements = sum(isinstance(node, ast.stmt) and dense(node) for node in nodes)
    docstrings = sum(len(source.docstring_lines) for source in sources)
    imports = sum(len(source.import_lines) for source in sources)
    rows = {
        "files": f"{len(sources)}",
        "lines in a file, median / max": f"{median(lengths):.0f} / {max(lengths)}",
        "lines": f"{sum(lengths):,}",
        "lines of code": f"{code:,}",
        "import lines, share of all lines": f"{imports / sum(lengths):.0%}",
        "public names defined in several modules": f"{len(repeated_names(sources))}",
        f"lines of code in repeated blocks ({BLOCK} lines or more)": f"{repeated_lines(sources)}",
        "statements with two or more comprehensions, conditional expressions or lambdas": f"{dense_statements}",
        "`raise` / `try`": f"{raises} / {tries}",
        "docstring lines per 100 lines of code": f"{100 * docstrings / code:.0f}",
    }
    pages = {"README": [root / "README.md"], "docs": sorted((root / "docs").glob("*.md"))}
    for title, files in pages.items():
        words = [count for file in files for count in sentence_lengths(file.read_text("utf-8"))]
        rows[f"words in a sentence, {title}"] = f"{fmean(words):.1f}" if words else "-"
    for kind, found in (("`{}()`", house.public_functions()), ("`depthlr {}`", house.verbs())):
        for name, module in sorted(found.items()):
            rows[f"modules reachable from {kind.format(name)}"] = f"{len(house.reachable(module))}"
    return rows


def repeated_names(sources: list[Source]) -> set[str]:
    """Public functions, classes and constants that more than one module defines."""
    homes: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = [node.name]
            elif isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            else:
                continue
            for name in names:
                homes[name].add(source.name)
    return {name for name, modules in homes.items() if len(modules) > 1 and not name.startswith("_")}


def repeated_lines(sources: list[Source]) -> int:
    """Lines of code, imports aside, that stand in a block which occurs more than once."""
    places: dict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    numbers: dict[str, list[int]] = {}
    for source in sources:
        numbers[source.name] = [line for line in source.code_lines if line not in source.import_lines]
        texts = [source.lines[line - 1].strip() for line in numbers[source.name]]
        for start in range(len(texts) - BLOCK + 1):
            places[tuple(texts[start : start + BLOCK])].append((source.name, start))
    repeated: set[tuple[str, int]] = set()
    for found in places.values():
        if len(found) > 1:
            repeated |= {(name, start + offset) for name, start in found for offset in range(BLOCK)}
    return len(repeated)


def dense(statement: ast.stmt) -> bool:
    """Does a statement, without the statements inside it, hold two or more comprehensions and the like?"""
    return sum(isinstance(node, DENSE) for node in _expressions(statement)) > 1


def sentence_lengths(markdown: str) -> list[int]:
    """Words in each sentence of running text: no code blocks, tables, headings or comments."""
    text = re.sub(r"```.*?```|<!--.*?-->", "\n\n", markdown, flags=re.DOTALL)
    text = re.sub(r"^(#|\||!\[|<).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^\s*([-*]|\d+\.)\s", "\n\n", text, flags=re.MULTILINE)
    lengths = []
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?])[)*_\"]*\s+", " ".join(paragraph.split())):
            words = [word for word in sentence.split() if re.search(r"\w", word)]
            if words:
                lengths.append(len(words))
    return lengths


def revision(rev: str, folder: Path) -> Path:
    """A revision's files, unpacked in a folder."""
    archive = subprocess.run(["git", "archive", rev, *MEASURED], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def table(columns: dict[str, dict[str, str]]) -> str:
    """Markdown, one row for each title that a column has."""
    titles = dict.fromkeys(title for rows in columns.values() for title in rows)
    lines = []
    for title in titles:
        lines.append([title, *(rows.get(title, "-") for rows in columns.values())])
    return markdown_table(["", *columns], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rev", action="append", default=[], help="a git revision to measure too (repeat)")
    columns: dict[str, dict[str, str]] = {}
    for rev in parser.parse_args().rev:
        with TemporaryDirectory() as folder:
            columns[rev] = measure(revision(rev, Path(folder)))
    columns["this checkout"] = measure(ROOT)
    print(table(columns))


def _entries(tree: ast.Module, name: str) -> dict[str, str]:
    """The dictionary of texts that a module writes out under that name; empty if there is none."""
    for node in tree.body:
        names = [t.id for t in getattr(node, "targets", []) if isinstance(t, ast.Name)]
        if name in names and isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            return dict(ast.literal_eval(node.value))
    return {}


def _span(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield child
            yield from _expressions(child)


if __name__ == "__main__":
    main()
