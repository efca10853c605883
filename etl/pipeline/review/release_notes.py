"""Notes of releases beside the data: a ledger that was restored from a backup learns from them what was released.

    <notes>/releases/<name of the file>.json     {"by": …, "at": …, "note": …, "rows": ["12-3", …]}

A note is written once the release is committed and before its file lands, so every file that has landed has a note,
and what has no note was never released: names and contents in the landing folder prove nothing (ADR 60). Notes stay,
as the verdicts do that they copy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from etl.adapters.durable import write_durably
from etl.adapters.landing import is_release
from etl.adapters.verdicts import NotARow, RowId, Verdict
from etl.errors import TerminalError

_SUFFIX = ".json"


class ReleaseNoteDamaged(TerminalError):
    """A note of a release cannot be read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"the note of a release {self.path} is damaged; restore it from a backup of the warehouse"


@dataclass(frozen=True, slots=True)
class ReleaseNote:
    """The lines that were released into a file, and the verdict on them; None if another release had them all."""

    rows: Sequence[RowId]
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class ReleaseNotes:
    """The folder of notes."""

    folder: Path

    def files(self) -> frozenset[str]:
        """The names of the files that have a note."""
        names = os.listdir(os.fsencode(self.folder)) if self.folder.is_dir() else []  # noqa: PTH208 - names are bytes
        files = (name.removesuffix(_SUFFIX.encode()) for name in names if name.endswith(_SUFFIX.encode()))
        return frozenset(name.decode() for name in files if is_release(name))

    def write(self, file: str, note: ReleaseNote) -> None:
        """Write a note; the same again does no harm."""
        value: dict[str, object] = {"rows": [str(row) for row in note.rows]}
        if note.verdict is not None:
            value |= {"by": note.verdict.by, "at": note.verdict.at.isoformat(), "note": note.verdict.note}
        write_durably(self._path(file), json.dumps(value).encode())

    def read(self, file: str) -> ReleaseNote:
        """The note of a file."""
        path = self._path(file)
        try:
            value = json.loads(path.read_bytes())
            rows = [RowId.parse(row) for row in value["rows"]]
            if not rows:
                return ReleaseNote((), None)
            at = datetime.fromisoformat(value["at"])
            return ReleaseNote(rows, Verdict("released", value["by"], at, value["note"], file))
        except (ValueError, TypeError, KeyError, NotARow):
            raise ReleaseNoteDamaged(str(path)) from None

    def _path(self, file: str) -> Path:
        return self.folder / f"{file}{_SUFFIX}"
