"""python -m benchmarks.transferbench"""

import sys

from benchmarks.transferbench.app import app

from depthlr.errors import DepthlrError

try:
    app()
except DepthlrError as error:
    sys.exit(f"error: {error}")
