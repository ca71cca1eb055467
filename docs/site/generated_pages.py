"""Pages of the site without a file in docs/: the changelog, and one for each public module."""

import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
WITHOUT_DOCSTRINGS = {"andiron.outputs", "andiron.protocols", "andiron.ranges"}
FILTERS = {
    "andiron.options": ["!^_", "!^option$"],
    "andiron.ranges": ["!^_", "!^[A-Z_]+$", "!^(Class|In64Bits)$"],
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The files of docs/ and the generated pages."""
    text = CHANGELOG.read_text(encoding="utf-8").replace("](docs/", "](")
    files.append(File.generated(config, "changelog.md", content=text))
    for title, page in modules(config.nav):
        module = f"andiron.{Path(page).stem}"
        options: dict[str, Any] = {"show_if_no_docstring": module in WITHOUT_DOCSTRINGS}
        if module in FILTERS:
            options["filters"] = FILTERS[module]
        text = f"# {title or module}\n\n::: {module}\n    options: {json.dumps(options)}\n"
        files.append(File.generated(config, page, content=text))
    return files


def modules(nav: Any, title: str = "") -> list[tuple[str, str]]:
    """The title, if any, and the file of each page `api/<module>.md` in a part of `nav`."""
    if isinstance(nav, str):
        return [(title, nav)] if nav.startswith("api/") else []
    parts = nav.items() if isinstance(nav, dict) else [("", part) for part in nav]
    return [found for title, part in parts for found in modules(part, title)]


def on_page_markdown(_: str, page: Page, **__: Any) -> None:
    """Lets a search rank pages that people wrote above generated ones."""
    if page.file.generated_by is None and page.file.src_uri != "configuration.md":
        page.meta["search"] = {"boost": 4}
