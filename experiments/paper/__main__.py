"""python -m experiments.paper"""

import sys

from depthlr.errors import DepthlrError
from experiments.paper.app import app

if __name__ == "__main__":
    try:
        app()
    except DepthlrError as error:
        sys.exit(f"error: {error}")
