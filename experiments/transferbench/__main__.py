"""python -m experiments.transferbench"""

import sys

from depthlr.errors import DepthlrError
from experiments.transferbench.app import app

try:
    app()
except DepthlrError as error:
    sys.exit(f"error: {error}")
