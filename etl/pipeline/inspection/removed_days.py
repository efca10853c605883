"""Lines of archived input that retention has removed, by day: in the ledger, and in notes beside the data.

    <notes>/archive/2026-10-20.json     {"lines": 41250}

A ledger that was restored from a backup does not know what was removed since, and lines that are in no file any more
cannot be counted again. So the notes are believed, too. Both are written before the day's folder is removed.
"""

from __future__ import annotations

import json
from pathlib import Path

from etl.adapters.durable import write_durably
from etl.adapters.ledger import Ledger
from etl.pipeline.tasks.plan import Places


def removed_days(places: Places, ledger: Ledger) -> dict[str, int]:
    """By day, the number of lines in removed archived files."""
    noted = {path.stem: int(json.loads(path.read_bytes())["lines"]) for path in _folder(places).glob("*.json")}
    return noted | ledger.archive_removed()


def note_removed_day(places: Places, ledger: Ledger, day: str, lines: int) -> None:
    """Record, in advance, the number of lines in a day's folder. The first count stands: a removal may be repeated."""
    counted = removed_days(places, ledger).get(day, lines)
    write_durably(_folder(places) / f"{day}.json", json.dumps({"lines": counted}).encode())
    ledger.remove_archive(day, counted)


def _folder(places: Places) -> Path:
    return places.notes / "archive"
