"""The results page and its pictures, from the committed tables alone."""

from depthlr.recipes.page.kept import Kept, read_kept
from depthlr.recipes.page.page import results_page
from depthlr.recipes.page.write import write_page

__all__ = ["Kept", "read_kept", "results_page", "write_page"]
