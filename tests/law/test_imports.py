import ast
import sys
from pathlib import Path

import depthlr.law


def test_the_law_loads_nothing_but_numpy_the_error_and_itself():
    for file in Path(depthlr.law.__file__).parent.glob("*.py"):
        for node in ast.parse(file.read_text()).body:  # top level only: scipy may load inside a function
            modules = [node.module] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in modules:
                own = module in {"depthlr.errors", "depthlr.formatting"} or module.startswith("depthlr.law")
                own |= module == "depthlr" and [alias.name for alias in node.names] == ["check"]
                assert own or module.split(".")[0] in {"numpy", *sys.stdlib_module_names}, (file.name, module)


def test_the_table_of_contents_is_complete():
    assert all(hasattr(depthlr.law, name) for name in depthlr.law.__all__)
