"""Data Docs that open anywhere: styles and scripts lie beside the pages, and no page asks the network for anything.

    Great Expectations' page ──▶ offline, as it is stored ──▶ data_docs/…/page.html   href="../../static/offline/…"
    data_docs_assets, data_docs_ours ──▶ place_assets ──▶ data_docs/static/offline/   once per version

Great Expectations' templates take thirteen files from five content networks; where there is no internet their pages
are bare text, and their tables, which a script fills, are empty. Pages are rewritten as they are stored: what is known
comes from the assets, what is not is left out (no expectation that can be declared draws a chart), so that a page never
waits for the network; links to pages of suites, which nobody makes, become text. A style and a script of ours make up
for weak contrasts and fields without a name. Links are relative: the folder can be opened as files, served under any
prefix, or copied elsewhere. The cost is one pass over the text of a page.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from functools import cache
from pathlib import Path

ASSETS = Path(__file__).with_name("data_docs_assets")
OURS = Path(__file__).with_name("data_docs_ours")
OFFLINE = "static/offline"

_LOGO = "static/images/logo-long.png"
_STYLES = (
    ("bootstrap-table-filter-control", "css/bootstrap-table-filter-control.min.css"),
    ("bootstrap-table", "css/bootstrap-table.min.css"),
    ("bootstrap-datepicker", "css/bootstrap-datepicker.min.css"),
    ("bootstrap-prefers-dark", "css/bootstrap-prefers-dark.min.css"),
    ("font-awesome", "css/fontawesome.min.css"),
    ("/bootstrap", "css/bootstrap.min.css"),
)
_SCRIPTS = (
    ("bootstrap-table-filter-control", "js/bootstrap-table-filter-control.min.js"),
    ("bootstrap-table", "js/bootstrap-table.min.js"),
    ("bootstrap-datepicker", "js/bootstrap-datepicker.min.js"),
    ("jquery", "js/jquery.min.js"),
    ("popper", "js/popper.min.js"),
    ("/bootstrap", "js/bootstrap.min.js"),
)
"""What an address contains, and the file that stands for it; the first that fits counts."""

_STYLE = re.compile(r'<link\b[^>]*\bhref="(https?://[^"]*)"[^>]*>')
_SCRIPT = re.compile(r'<script\b[^>]*\bsrc="(https?://[^"]*)"[^>]*>\s*</script>')
_IMAGE = re.compile(r'(<img\b[^>]*\bsrc=")https?://[^"]*(")')
_BACKGROUND = re.compile(r"url\('https?://[^')]*'\)")
_ICON = re.compile(r'(<link rel="shortcut icon" href=")[./]*/(static/)')
_SUITE = re.compile(r'<a\b[^>]*\bhref="[./]*expectations/[^"]*\.html"[^>]*>(.*?)</a>', re.DOTALL)
_NEWSLETTER = re.compile(r"<footer>\s*<p>Stay current.*?</footer>", re.DOTALL)


def offline(page: str, root: str) -> str:
    """A page of Great Expectations that takes what it needs from the folder that `root` leads to."""
    home = f"{root}{OFFLINE}"

    def style(found: re.Match[str]) -> str:
        name = _stand_in(found[1], _STYLES)
        return f'<link rel="stylesheet" href="{home}/{name}">' if name else ""

    def script(found: re.Match[str]) -> str:
        name = _stand_in(found[1], _SCRIPTS)
        return f'<script src="{home}/{name}"></script>' if name else ""

    page = _SCRIPT.sub(script, _STYLE.sub(style, page))
    page = _IMAGE.sub(rf"\g<1>{root}{_LOGO}\g<2>", page)
    page = _SUITE.sub(r"\g<1>", _ICON.sub(rf"\g<1>{root}\g<2>", page))
    page = _BACKGROUND.sub(f"url('{root}{_LOGO}')", page)
    ours = f'<link rel="stylesheet" href="{home}/readable.css"><script src="{home}/readable.js"></script>'
    page = page.replace("</head>", f"{ours}</head>", 1)
    return _NEWSLETTER.sub("", page).replace("<html>", '<html lang="en">', 1)


def _stand_in(address: str, known: tuple[tuple[str, str], ...]) -> str | None:
    return next((name for part, name in known if part in address), None)


def place_assets(docs: Path) -> None:
    """Put the assets beside the pages, unless those that are there are the same."""
    home = docs / OFFLINE
    stamp = home / "version"
    if stamp.exists() and stamp.read_text() == _version():
        return
    for folder in (ASSETS, OURS):
        shutil.copytree(folder, home, dirs_exist_ok=True)
    stamp.write_text(_version())


@cache
def _version() -> str:
    """A sum over all assets: others take their place when it changes."""
    total = hashlib.sha256()
    for folder in (ASSETS, OURS):
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            total.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return total.hexdigest()
