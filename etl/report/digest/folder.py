"""The folder of digests: one folder per day and a list, all files written atomically.

digest/index.html, latest.json, <day>/index.html, <day>/digest.json
"""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

from pydantic import ValidationError

from etl.report.digest import page
from etl.report.digest.model import Digest
from etl.report.folder import NoReport, Written, put

KEPT_DAYS = 90


def write(digest: Digest, folder: Path, keep: int = KEPT_DAYS) -> Written:
    """Put a digest into `folder`, renew the list, and remove all but the newest `keep`."""
    home = folder / digest.day.isoformat()
    home.mkdir(parents=True, exist_ok=True)
    written, whole = Written(home / "index.html", home / "digest.json"), digest.model_dump_json(indent=2)
    put(written.html, page.render(digest))
    put(written.json, whole)
    days = sorted((path.parent.name for path in folder.glob("*/digest.json")), reverse=True)
    put(folder / "index.html", page.render_list(days[:keep]))
    if days[0] == digest.day.isoformat():
        put(folder / "latest.json", whole)
    for old in days[keep:]:
        shutil.rmtree(folder / old, ignore_errors=True)
    return written


def read(folder: Path, day: date | None = None) -> Digest:
    """The digest of a day, or the newest one. Raises `NoReport`."""
    path = folder / "latest.json" if day is None else folder / day.isoformat() / "digest.json"
    try:
        return Digest.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        raise NoReport(None if day is None else day.isoformat(), str(folder)) from None
