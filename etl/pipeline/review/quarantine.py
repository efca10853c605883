"""Refused lines for people: numbered, with their verdict and their origin.

    12-3        batch 12, the third of its refused lines in the order of file and line
     └ 9-1      … released before from batch 9, where it was the first

The table is append-only, so a line keeps its number. Values of sensitive fields are masked wherever a line is shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from etl.adapters.ledger import Ledger
from etl.adapters.verdicts import RowId, Verdict, Verdicts
from etl.errors import TerminalError
from etl.pipeline.review.days import Days
from etl.pipeline.review.masking import MASK, LinePlaces, Masking, Refusing
from etl.pipeline.tasks.plan import QUARANTINE

_ORDER = ("source_file", "line", "landed_at", "from_backlog", "raw")


class RowUnknown(TerminalError):
    """No loaded batch refused such a line."""

    exit_code = 64

    def __init__(self, pipeline: str, row: RowId) -> None:
        super().__init__(pipeline, row)
        self.pipeline, self.row = pipeline, row

    def __str__(self) -> str:
        return (
            f"{self.row} is not a refused line of {self.pipeline}; "
            f"`frontstage quarantine list {self.pipeline}` shows those there are"
        )


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """One line in quarantine."""

    id: RowId
    key: str | None  # JSON of the key's fields
    reasons: tuple[str, ...]
    raw: bytes
    source_file: str
    line: int
    landed_at: datetime
    decided_at: datetime
    from_backlog: bool
    released_from: RowId | None
    verdict: Verdict | None

    @property
    def state(self) -> str:
        return "open" if self.verdict is None else self.verdict.word


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter on refused lines; criteria that are not given match every line."""

    rows: frozenset[RowId] = frozenset()
    batch: int | None = None
    reason: str | None = None
    key: tuple[str, ...] = ()
    open_only: bool = True
    decided: Days | None = None
    without: frozenset[str] = frozenset()  # reasons

    @property
    def is_everything(self) -> bool:
        return not (self.rows or self.batch or self.reason or self.key or self.decided)

    def has(self, line: RefusedLine) -> bool:
        return (
            (not self.rows or line.id in self.rows)
            and self.batch in (None, line.id.batch)
            and (self.reason is None or self.reason in line.reasons)
            and (not self.key or line.key == json.dumps(list(self.key)))
            and not (self.open_only and line.verdict)
            and (self.decided is None or self.decided.begin <= line.decided_at < self.decided.end)
            and self.without.isdisjoint(line.reasons)
        )


class Quarantine:
    """The refused lines of loaded batches of one pipeline, or of one stream of correlations. Read-only."""

    def __init__(
        self, pipeline: Refusing, places: LinePlaces, ledger: Ledger, verdicts: Verdicts | None = None
    ) -> None:
        self.pipeline, self.places = pipeline, places
        self._ledger, self.verdicts = ledger, verdicts or Verdicts(ledger)
        self._masking = Masking(pipeline, places)

    def find(self, wanted: Selection) -> Iterator[RefusedLine]:
        """The selected lines, newest batch first."""
        named = {row.batch for row in wanted.rows} or ({wanted.batch} if wanted.batch else None)
        for batch in self._batches if wanted.decided is None else self._decided_on(wanted.decided):
            if named is None or batch in named:
                yield from (line for line in self._of_batch(batch) if wanted.has(line))

    def get(self, row: RowId) -> RefusedLine:
        """One line, which must exist."""
        for line in self.find(Selection(frozenset({row}), open_only=False)):
            return line
        raise RowUnknown(self.pipeline.name, row)

    def history(self, line: RefusedLine) -> list[RefusedLine]:
        """Earlier refusals of the same line, oldest first: the chain of releases that led to it."""
        found: list[RefusedLine] = []
        seen = {line.id}
        while line.released_from is not None and line.released_from not in seen:
            earlier = next(self.find(Selection(frozenset({line.released_from}), open_only=False)), None)
            if earlier is None or earlier.verdict is None or earlier.verdict.file != line.source_file:
                break  # a line that was never released cannot have landed again: a foreign file
            seen.add(earlier.id)
            found.insert(0, earlier)
            line = earlier
        return found

    def header(self, line: RefusedLine) -> str | None:
        """The header above a line of CSV, from the file in which it first landed."""
        first = next(iter(self.history(line)), line)
        return self._masking.header(first.source_file, first.landed_at)

    def shown(self, line: RefusedLine) -> dict[str, Any]:
        """A line as JSON, sensitive values masked."""
        first = next(iter(self.history(line)), line)
        return {
            "row": str(line.id),
            "state": line.state,
            "reasons": list(line.reasons),
            "key": self._masked_key(line.key),
            "raw": self._masking.masked(line.raw, first.source_file, first.landed_at),
            "file": line.source_file,
            "line": line.line,
            "landed_at": line.landed_at.isoformat(),
            "refused_at": line.decided_at.isoformat(),
            "waited": line.from_backlog,
            "released_from": None if line.released_from is None else str(line.released_from),
            "verdict": None if line.verdict is None else _verdict_json(line.verdict),
        }

    def _masked_key(self, key: str | None) -> list[str] | None:
        names = self.pipeline.stream.key
        if key is None:
            return None
        return [MASK if n in self.pipeline.sensitive else v for n, v in zip(names, json.loads(key), strict=True)]

    @cached_property
    def _table(self) -> ds.Dataset:
        from deltalake import DeltaTable

        table = DeltaTable(str(self.places.tables / QUARANTINE)).to_pyarrow_dataset()
        begun = self._ledger.oldest_open()
        return table if begun is None else table.filter(ds.field("batch") < begun)

    @cached_property
    def _batches(self) -> Sequence[int]:
        if not (self.places.tables / QUARANTINE).is_dir():
            return ()
        batches = self._table.to_table(columns=["batch"])["batch"].unique().to_pylist()
        return sorted(batches, reverse=True)

    def _decided_on(self, days: Days) -> Sequence[int]:
        """Batches that refused lines on these days; only these are read."""
        if not self._batches:
            return ()
        rows = self._table.to_table(columns=["batch", "decided_at"])
        at = rows["decided_at"]  # the dataset's own filter finds nothing where the log has no statistics of times
        found = rows.filter(pc.and_(pc.greater_equal(at, days.begin), pc.less(at, days.end)))
        return sorted(found["batch"].unique().to_pylist(), reverse=True)

    def _of_batch(self, batch: int) -> Iterator[RefusedLine]:
        rows = self._table.to_table(filter=ds.field("batch") == batch)
        rows = rows.sort_by([(name, "ascending") for name in _ORDER])
        verdicts = self.verdicts.of([batch])
        number = 0
        for part in rows.to_batches(max_chunksize=4096):
            for row in _with_origin(part).to_pylist():
                number += 1
                yield _line(RowId(batch, number), row, verdicts.get(RowId(batch, number)))


def _with_origin(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with the origin column, which older tables lack."""
    if "released_from" in rows.schema.names:
        return rows
    return rows.append_column("released_from", pa.nulls(rows.num_rows, pa.string()))


def _line(id: RowId, row: dict[str, Any], verdict: Verdict | None) -> RefusedLine:
    return RefusedLine(
        id=id,
        key=row["key"],
        reasons=tuple(row["reasons"]),
        raw=row["raw"] or b"",
        source_file=row["source_file"],
        line=row["line"],
        landed_at=row["landed_at"],
        decided_at=row["decided_at"],
        from_backlog=row["from_backlog"],
        released_from=None if row["released_from"] is None else RowId.parse(row["released_from"]),
        verdict=verdict,
    )


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    at = verdict.at.isoformat()
    return {"word": verdict.word, "by": verdict.by, "at": at, "note": verdict.note, "file": verdict.file}
