"""What MkDocs asks of us: pages of the reference, figures from `bench/results`, and the decisions in the navigation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from docsite import reference

PROJECT = Path(__file__).parents[1]
_PLACES = "bench|warehouse|etl|docker|requirements|README|CONTRIBUTING|CHANGELOG|LICENSE"
_OUTSIDE = re.compile(rf"\]\((?:\.\./)+((?:{_PLACES})[^)]*)\)")


def on_config(config: Any) -> Any:
    """Put the decisions at the end of the navigation."""
    titles = [(path, path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ")) for path in _decisions()]
    config.nav.append({"Decisions": [{title: f"adr/{path.name}"} for path, title in titles]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add what is generated, and what pages show from outside of `docs`."""
    for name, text in reference.pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for name in sorted(_shown()):
        files.append(File.generated(config, name, abs_src_path=str(PROJECT / name)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links that leave `docs` lead to the copies that the site has."""
    up = "../" * page.file.src_uri.count("/")
    return _OUTSIDE.sub(lambda found: f"]({up}{found[1]})", markdown)


def _shown() -> set[str]:
    """Files outside of `docs` that pages link to."""
    pages = (path.read_text(encoding="utf-8") for path in (PROJECT / "docs").rglob("*.md"))
    return {found.partition("#")[0] for text in pages for found in _OUTSIDE.findall(text)}


def _decisions() -> list[Path]:
    return sorted((PROJECT / "docs" / "adr").glob("*.md"))
