"""A hook of mkdocs: README is the front page of the site, and links of the repository are links of the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

# Pages at the root of the repository, and what they are called on the site.
AT_ROOT = {
    "README.md": "index.md",
    **{name: name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")},
}
FROM_ROOT = {site: name for name, site in AT_ROOT.items()}
LINK = re.compile(r"(?<=\]\()([\w./-]+)")  # the path of a Markdown link; neither an address nor an anchor alone


def on_files(files: Files, config: Any) -> Files:
    """Add the pages at the root."""
    root = Path(config.config_file_path).parent
    for name, site in AT_ROOT.items():
        files.append(File.generated(config, site, content=(root / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **others: Any) -> str:
    """Write the links of a page as the site has them."""
    place = page.file.src_uri
    folder = posixpath.dirname(FROM_ROOT.get(place, f"docs/{place}"))

    def on_site(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[0]))
        found = AT_ROOT.get(target, target.removeprefix("docs/"))
        return posixpath.relpath(found, posixpath.dirname(place) or ".")

    # What GitHub reads as Markdown inside of HTML.
    return LINK.sub(on_site, markdown).replace("<details>", '<details markdown="1">')
