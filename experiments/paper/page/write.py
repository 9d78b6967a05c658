"""Writing the results page and its pictures."""

from __future__ import annotations

from pathlib import Path

from depthlr.data.files import replace_file
from depthlr.errors import DepthlrError
from experiments.paper.page.kept import read_kept
from experiments.paper.page.page import IMAGES, results_page
from experiments.paper.page.pictures import drawn, pictures
from experiments.tables import write_text


def write_page(folder: Path, page: Path) -> list[Path]:
    """Everything that the tables of `folder` say, to `page` and to pictures beside it; the files written."""
    kept = read_kept(folder)
    panels = pictures(kept)
    text = results_page(kept, list(panels))
    written = []
    for name, found in panels.items():
        place = page.parent / IMAGES / f"{name}.png"
        try:
            with replace_file(place) as file:
                file.write(drawn(found))
        except OSError as error:
            raise DepthlrError(f"{place} cannot be written ({error}): name a page you can write to.") from error
        written.append(place)
    write_text(page, text)
    return [*written, page]
