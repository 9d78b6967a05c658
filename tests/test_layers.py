"""Layers import only downwards, the product never imports the experiments, and importing costs little."""

import ast
import subprocess
import sys
import tomllib
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
from setuptools import find_packages

import depthlr

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "depthlr"
LAYERS = {
    "version": -3,
    "errors": -2,
    "python_name": -1,
    "spec_text": -1,
    "random_states": -1,
    "check": -1,
    "formatting": -1,
    "law": 0,
    "optimizers": 1,
    "trace": 1,
    "models": 1,
    "data": 1,
    "init": 2,
    "energy": 2,
    "training": 2,
    "transfer": 3,
    "study": 4,
    "cluster": 4,
    "integrations": 5,
    "present": 5,
    "cli": 6,
}


def imports(path: Path, package: str = "depthlr") -> set[str]:
    """Modules of a package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            inner = {f"{module}.{alias.name}" for alias in node.names} & set(files())
            found |= inner or {module}
    return {name for name in found if name.split(".")[0] == package}


def files() -> dict[str, Path]:
    return {
        ".".join(("depthlr", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in SOURCE.rglob("*.py")
    }


def layer(module: str) -> str:
    return module.split(".")[1]


def test_every_folder_and_file_has_a_layer() -> None:
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and (p / "__init__.py").exists()}
    assert folders == set(LAYERS) - {
        "version",
        "errors",
        "python_name",
        "spec_text",
        "check",
        "formatting",
        "random_states",
        "optimizers",
    }


def test_imports_point_downwards() -> None:
    for module, path in files().items():
        if module in {"depthlr", "depthlr.__main__"}:
            continue
        for name in imports(path):
            assert name != "depthlr", f"{module} imports the package root"
            if layer(name) != layer(module):
                assert LAYERS[layer(name)] < LAYERS[layer(module)], f"{module} imports {name}, which is not below it"


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    known = files()
    graph = {m: {n for n in imports(p) if n in known and n != m} for m, p in known.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(known)


def test_the_product_does_not_import_the_experiments() -> None:
    assert not {module for module, path in files().items() if imports(path, "experiments") | imports(path, "tests")}
    importing = [path for path in (ROOT / "experiments").rglob("*.py") if imports(path, "experiments")]
    assert importing, "the same search finds imports where there are some"


def test_one_experiment_does_not_import_another() -> None:
    root = ROOT / "experiments"
    folders = {path.name for path in root.iterdir() if (path / "__init__.py").exists()}
    assert {"paper", "transferbench", "speed"} <= folders
    for path in root.rglob("*.py"):
        own = path.relative_to(root).parts[0]
        used = {name.split(".")[1] for name in imports(path, "experiments") if "." in name}
        assert used & folders <= {own}, f"{path} imports another experiment"


def test_the_wheel_holds_the_product_alone() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    (where,) = settings["packages"]["find"]["where"]
    packages = find_packages(str(ROOT / where))
    assert set(packages) == {"depthlr", *(f"depthlr.{name}" for name in LAYERS if (SOURCE / name).is_dir())}
    for pattern in settings["package-data"]["depthlr"]:
        assert list(SOURCE.glob(pattern)), f"{pattern} names no file"


def test_importing_needs_torch_and_numpy_alone() -> None:
    heavy = ["scipy", "typer", "rich", "matplotlib", "timm", "transformers", "lightning", "ray", "pandas", "PIL"]
    assert imported_by("from depthlr import *", heavy) == []


def imported_by(code: str, modules: list[str]) -> list[str]:
    """Which of these modules a new process has imported after running the code."""
    program = f"import sys\n{code}\nprint([m for m in {modules} if m in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    found: list[str] = ast.literal_eval(done.stderr.splitlines()[-1])
    return found


def test_importing_the_package_imports_no_torch() -> None:
    assert imported_by("import depthlr; depthlr.law.RULES, depthlr.Fit, depthlr.DepthlrError", ["torch"]) == []


@pytest.mark.parametrize(
    "arguments",
    [
        "--help",
        "--version",
        "transfer --rate 1e-3 --from 10 --to 20",
        "transfer --rate 1e-3 --from 10 --to 20 --rule depth-mup --optimizer adam --json",
        "transfer --help",
        "fit optima.csv --at 32",
        "fit --help",
    ],
)
def test_help_and_arithmetic_start_without_torch(arguments, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("optima.csv").write_text("depth,rate\n4,0.1\n8,0.05\n16,0.02\n")
    code = f"""
from depthlr.cli import main
sys.argv = ["depthlr", *{arguments.split()}]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code"""
    assert imported_by(code, ["torch"]) == []


def test_every_public_name_and_layer_can_be_had_from_the_package() -> None:
    for name in depthlr.__all__:
        home = import_module(f"depthlr.{depthlr._HOME[name]}")
        assert getattr(depthlr, name) is getattr(home, name)
    assert set(depthlr._HOME) == set(depthlr.__all__) <= set(dir(depthlr))
    assert depthlr.law is import_module("depthlr.law")
    with pytest.raises(AttributeError, match="no attribute 'typo'"):
        depthlr.typo  # noqa: B018
