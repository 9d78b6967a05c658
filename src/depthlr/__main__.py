"""`python -m depthlr`."""

from depthlr.cli import main

main()
