"""Verdicts on refused lines: one per line, released or rejected, and final.

    release ── one commit: verdicts + the name of a file ──▶ the file is written ──▶ landed
                          (after a crash in between, the next writer finds the file missing and writes it)

The primary key is the guard: a second verdict on a line has no effect. See ADR 60.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self

from psycopg2.extras import RealDictCursor

from etl.adapters import postgres
from etl.adapters.ledger import Ledger
from etl.errors import TerminalError

Word = Literal["released", "rejected"]
_ROW_ID = re.compile(r"([1-9][0-9]{0,17})-([1-9][0-9]{0,17})")


class NotARow(TerminalError):
    """The text is no valid id of a refused line."""

    exit_code = 64

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.text!r} names no refused line; give batch and number, such as 12-3, as the list shows them"


class RowId(NamedTuple):
    """A refused line: its batch, and its place among the batch's refused lines."""

    batch: int
    number: int

    def __str__(self) -> str:
        return f"{self.batch}-{self.number}"

    @classmethod
    def parse(cls, text: str) -> Self:
        found = _ROW_ID.fullmatch(text)
        if found is None:
            raise NotARow(text)
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A person's decision on a refused line."""

    word: Word
    by: str
    at: datetime
    note: str
    file: str | None = None  # of a released line: the file in which it landed again


class Verdicts:
    """The verdicts on the refused lines of one pipeline, or of one stream of a ledger, on the ledger's connection."""

    def __init__(self, ledger: Ledger, about: str | None = None, folder: str = "") -> None:
        """`about`: the owner of the lines, default the pipeline; `folder`: prefix of its file names in the ledger."""
        self._ledger, self._about, self._folder = ledger, about or ledger.pipeline, folder

    def of(self, batches: Iterable[int]) -> dict[RowId, Verdict]:
        """The verdicts on lines of these batches."""
        rows = self._all(
            "select * from etl.quarantine_verdict where pipeline = %(pipeline)s and batch = any(%(batches)s)",
            {"batches": list(batches)},
        )
        return {RowId(row["batch"], row["number"]): _verdict(row) for row in rows}

    def counts(self) -> dict[Word, int]:
        """The number of released and of rejected lines."""
        (row,) = self._all(
            "select count(*) filter (where verdict = 'released') as released, "
            "count(*) filter (where verdict = 'rejected') as rejected "
            "from etl.quarantine_verdict where pipeline = %(pipeline)s"
        )
        return {"released": int(row["released"]), "rejected": int(row["rejected"])}

    def by_file(self) -> dict[str, int]:
        """The number of released lines, by file."""
        rows = self._all(
            "select file, count(*) as lines from etl.quarantine_verdict "
            "where pipeline = %(pipeline)s and file is not null group by file"
        )
        return {row["file"]: int(row["lines"]) for row in rows}

    def add(self, rows: Sequence[RowId], verdict: Verdict) -> list[RowId]:
        """Record a verdict on lines; returns those that had none."""
        values = {
            "batches": [row.batch for row in rows],
            "numbers": [row.number for row in rows],
            "verdict": verdict.word,
            "decided_by": verdict.by,
            "decided_at": verdict.at,
            "note": verdict.note,
            "file": verdict.file,
        }
        return sorted(RowId(**row) for row in self._all(postgres.statement("verdict_add"), values))

    def next_file(self) -> int:
        """A number for the next file, higher than that of any other."""
        (row,) = self._all("select count(*) + 1 as number from etl.release_file where pipeline = %(pipeline)s")
        return int(row["number"])

    def add_file(self, name: str) -> None:
        """Record a file that will be written."""
        self._execute("insert into etl.release_file values (%(pipeline)s, %(name)s) on conflict do nothing", name)

    def land(self, name: str) -> None:
        """Record that a file has landed."""
        self._execute(
            "update etl.release_file set landed = true where pipeline = %(pipeline)s and name = %(name)s", name
        )

    def pending(self) -> list[str]:
        """Recorded files that may not be written yet."""
        rows = self._all("select name from etl.release_file where pipeline = %(pipeline)s and not landed")
        return sorted(row["name"] for row in rows)

    def files(self) -> frozenset[str]:
        """All recorded files."""
        return frozenset(
            row["name"] for row in self._all("select name from etl.release_file where pipeline = %(pipeline)s")
        )

    def verdict_in(self, file: str) -> Verdict | None:
        """The verdict on the lines in a file, which were released at once; None if there are none."""
        rows = self._all(
            "select * from etl.quarantine_verdict where pipeline = %(pipeline)s and file = %(file)s limit 1",
            {"file": file},
        )
        return _verdict(rows[0]) if rows else None

    def rows_in(self, file: str) -> list[RowId]:
        """The released lines in a file."""
        rows = self._all(
            "select batch, number from etl.quarantine_verdict where pipeline = %(pipeline)s and file = %(file)s "
            "order by batch, number",
            {"file": file},
        )
        return [RowId(**row) for row in rows]

    def was_read(self, file: str) -> bool:
        """Whether a batch has read a file."""
        query = "select from etl.input_slice where pipeline = %(ledger)s and name = %(name)s limit 1"
        return bool(self._all(query, {"ledger": self._ledger.pipeline, "name": f"{self._folder}{file}".encode()}))

    def _all(self, query: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        with self._ledger.connection.cursor(cursor_factory=RealDictCursor) as cursor:
            cursor.execute(query, {**(values or {}), "pipeline": self._about})
            return [dict(row) for row in cursor.fetchall()]

    def _execute(self, query: str, name: str) -> None:
        with self._ledger.connection.cursor() as cursor:
            cursor.execute(query, {"pipeline": self._about, "name": name})


def _verdict(row: dict[str, Any]) -> Verdict:
    return Verdict(row["verdict"], row["decided_by"], row["decided_at"], row["note"], row["file"])
