"""Data Docs that work offline: styles and scripts lie beside the pages, and no page loads anything from the network.

    Great Expectations' page ──▶ offline, as it is stored ──▶ data_docs/…/page.html   href="../../static/offline/…"
    assets, ours ──▶ place_assets ──▶ data_docs/static/offline/                 once per version of all,
    pictures and fonts of Great Expectations ──▶ data_docs/static/           theirs and ours

Great Expectations' templates load thirteen files from five CDNs, and fill their tables by inline scripts. Pages are
rewritten when they are stored: known styles come from the assets, all scripts and event handlers are removed, the list
of results becomes a plain table, and links to suite pages, which are never built, become text. One script of ours does
the rest, so the content security policy can forbid all others (`etl.page.security`). A style of ours corrects weak
contrasts. Links are relative: the folder can be opened as files, served under any prefix, or copied elsewhere. The cost
is one pass over the text of a page.
"""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
from functools import cache
from html import escape
from importlib.util import find_spec
from pathlib import Path

from etl.adapters.durable import sync_files, write_durably

ASSETS = Path(__file__).with_name("assets")
OURS = Path(__file__).with_name("ours")
OFFLINE = "static/offline"

_LOGO = "static/images/logo-long.png"
_STYLES = (
    ("bootstrap-prefers-dark", "css/bootstrap-prefers-dark.min.css"),
    ("font-awesome", "css/fontawesome.min.css"),
    ("/bootstrap.", "css/bootstrap.min.css"),
)
"""Part of an address, and the local file that replaces it."""

_STATUS = "_validation_success_text"
_ICONS = {True: "fa-check-circle text-success", False: "fa-times text-danger"}
_COLUMNS = {_STATUS: "Status", "run_time": "Run time", "run_name": "Run", "asset_name": "Asset"}
_LINK = "_table_row_link_path"

_STYLE = re.compile(r'<link\b[^>]*\bhref="(https?://[^"]*)"[^>]*>')
_SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
_HANDLER = re.compile(r'(<(?:label|button)\b[^>]*?)\sonclick="(\w+)\([^"]*\)"')
_ROWS = re.compile(r"\bdata: (\[.*?\]),\s*toolbar:", re.DOTALL)
_TABLE = re.compile(r'<div id="[^"]*-toolbar"[^>]*>.*?</div>\s*(<table\b[^>]*>)\s*</table>', re.DOTALL)
_IMAGE = re.compile(r'(<img\b[^>]*\bsrc=")https?://[^"]*(")')
_BACKGROUND = re.compile(r"url\('https?://[^')]*'\)")
_ICON = re.compile(r'(<link rel="shortcut icon" href=")[./]*/(static/)')
_SUITE = re.compile(r'<a\b[^>]*\bhref="[./]*expectations/[^"]*\.html"[^>]*>(.*?)</a>', re.DOTALL)
_NEWSLETTER = re.compile(r"<footer>\s*<p>Stay current.*?</footer>", re.DOTALL)


def offline(page: str, root: str) -> str:
    """Rewrite a page to load its assets from below `root`, a relative path."""
    home = f"{root}{OFFLINE}"

    def style(found: re.Match[str]) -> str:
        name = _local_asset(found[1], _STYLES)
        return f'<link rel="stylesheet" href="{home}/{name}">' if name else ""

    rows = _ROWS.search(page)
    page = _TABLE.sub(lambda table: _listed(table[1], ast.literal_eval(rows[1])) if rows else "", page)
    page = _HANDLER.sub(r'\g<1> data-does="\g<2>"', _SCRIPT.sub("", _STYLE.sub(style, page)))
    page = _IMAGE.sub(rf"\g<1>{root}{_LOGO}\g<2>", page)
    page = _SUITE.sub(r"\g<1>", _ICON.sub(rf"\g<1>{root}\g<2>", page))
    page = _BACKGROUND.sub(f"url('{root}{_LOGO}')", page)
    ours = f'<link rel="stylesheet" href="{home}/readable.css"><script src="{home}/readable.js" defer></script>'
    page = page.replace("</head>", f"{ours}</head>", 1)
    return _NEWSLETTER.sub("", page).replace("<html>", '<html lang="en">', 1)


def _listed(table: str, rows: list[dict[str, object]]) -> str:
    """The results that Great Expectations passes to a script, as an HTML table; in their order, newest first."""
    head = "".join(f"<th scope=col>{title}</th>" for title in _COLUMNS.values())
    body = "".join(f"<tr>{''.join(_cell(row, column) for column in _COLUMNS)}</tr>" for row in rows)
    search = '<input type="search" class="form-control" placeholder="Search" aria-label="Search the results">'
    return f"{search}{table}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(row: dict[str, object], column: str) -> str:
    text = escape(str(row.get(column) or ""))
    if column == _STATUS:
        text = f'<i class="fas {_ICONS[text == "Success"]}" aria-hidden="true"></i> {text}'
    return f'<td><a href="{escape(str(row[_LINK]))}">{text}</a></td>' if column == "run_name" else f"<td>{text}</td>"


def _local_asset(address: str, known: tuple[tuple[str, str], ...]) -> str | None:
    return next((name for part, name in known if part in address), None)


def place_assets(docs: Path) -> None:
    """Copy the assets beside the pages, unless they are there in this version."""
    home = docs / OFFLINE
    stamp = home / "version"
    if stamp.exists() and stamp.read_text() == _version():
        return
    shutil.copytree(_vendor_static(), docs / "static", dirs_exist_ok=True)
    for folder in (ASSETS, OURS):
        shutil.copytree(folder, home, dirs_exist_ok=True)
    sync_files(path for path in (docs / "static").rglob("*") if path.is_file())
    write_durably(stamp, _version().encode())  # last: what it stands for is on disk


def _vendor_static() -> Path:
    """Great Expectations' own `static` files: pictures, fonts, styles."""
    found = find_spec("great_expectations")
    origin = None if found is None else found.origin
    assert origin is not None, "Great Expectations is installed"
    return Path(origin).parent / "render" / "view" / "static"


@cache
def _version() -> str:
    """A hash over all assets: they are replaced when it changes."""
    total = hashlib.sha256()
    for folder in (ASSETS, OURS, _vendor_static()):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            total.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return total.hexdigest()
