"""Run reports, digests and Data Docs, served with the page's access control.

Only two folders are served: a path is resolved, including symbolic links, and must be inside. Files of one pipeline
need permission for that pipeline, all others for all of them. Reports run no scripts; Data Docs run only their own,
which cannot make requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, HTMLResponse

from etl.page.queries.correlations import NAME as CORRELATIONS
from etl.page.rendering import page
from etl.page.security import DOCS_HEADERS, HEADERS
from etl.page.site import Guest, NotFound, Visitor

router = APIRouter()
Area = Literal["reports", "data_docs"]
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".map": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".gif": "image/gif",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
    ".ttf": "font/ttf",
}
"""The served file types; all others are refused."""


@router.get("/reports")
def reports(request: Request, guest: Guest) -> HTMLResponse:
    """Where the reports of every pipeline, the correlations' and Data Docs are."""
    own, found = guest.site.settings, []
    named = {one.name for one in guest.site.pipelines} | {CORRELATIONS}
    for home in sorted(path.parent for path in own.reports.glob("*/index.html")):
        if home.name in guest.names or (home.name not in named and guest.sees_everything):
            found.append((home.name, f"files/reports/{home.name}/index.html"))
    if guest.sees_everything and (own.data_docs / "index.html").is_file():
        found.append(("Data Docs", "files/data_docs/index.html"))
    return page(request, "reports.html.j2", found=found)


@router.get("/files/{area}/{path:path}")
def file(guest: Guest, area: Area, path: str) -> FileResponse:
    """One file of a report or of Data Docs."""
    own = guest.site.settings
    folder = own.reports if area == "reports" else own.data_docs
    found = confined(folder, path)
    _check(guest, area, found.relative_to(folder.resolve()).parts)  # of the file itself: the address may go up and down
    headers = HEADERS if area == "reports" else DOCS_HEADERS
    return FileResponse(found, media_type=TYPES[found.suffix], headers=headers)


def confined(folder: Path, path: str) -> Path:
    """A file inside a folder. Raises `NotFound` for any path outside."""
    if "\0" in path:
        raise NotFound("such file")
    home = folder.resolve()
    try:
        found = (home / path).resolve(strict=True)
    except OSError:
        raise NotFound(f"file {path!r}") from None
    if found.is_dir():
        found = found / "index.html"
    if not found.is_relative_to(home) or not found.is_file() or found.suffix not in TYPES:
        raise NotFound(f"file {path!r}")
    return found


def _check(guest: Visitor, area: Area, parts: Sequence[str]) -> None:
    """Check the permission by the file's place; one of no single pipeline needs permission for all of them."""
    if area == "data_docs" and "static" in parts[:1]:
        return  # styles and scripts of Data Docs
    named = {one.name for one in guest.site.pipelines} | {CORRELATIONS}
    owner = parts[0] if area == "reports" and parts else parts[1] if len(parts) > 1 else None
    owner = None if owner is None else owner.removesuffix(".html")
    if owner in named:
        guest.must_see(str(owner))
    else:
        guest.must_see_everything()
