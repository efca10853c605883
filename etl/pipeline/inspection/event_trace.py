"""Trace one event through all storage: from the landed lines to the rows of the mart.

    raw files ── lines with the key ─┬─ the event     ┐
                                     ├─ duplicates    ├─ distinguished by tables and claims
                                     └─ refused       ┘
    claims ── fact | backlog ── master versions of the batch ── mart

Raw files are read as batches read them, slice by slice; batches and files that retention has removed are skipped.
Values of sensitive columns are masked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from etl.adapters import claims as claim
from etl.adapters import landing, mart
from etl.adapters.claims import ClaimIndex, lanes
from etl.adapters.kafka.copies import CopyReader, copy_path
from etl.adapters.landing import Limits, Slice, is_range
from etl.adapters.ledger import Ledger
from etl.adapters.slice_reader import SliceReader
from etl.columnar.keys import U64
from etl.contract.model import Pipeline
from etl.errors import TerminalError
from etl.ingest.typed import DefaultInvalid, default_value
from etl.pipeline.inspection.inventory import RefusedFiles, refused_files, written_at
from etl.pipeline.review.masking import MASK
from etl.pipeline.review.quarantine import Quarantine, Selection
from etl.pipeline.tasks.line_choice import POISON, WHOLE_FILE, LineChoice
from etl.pipeline.tasks.plan import BACKLOG, FACT, Places
from etl.pipeline.tasks.read import Reader, event_keys, events_of

_STATES = {claim.FREE: "free", claim.ACCEPTED: "accepted", claim.WAITING: "waiting", claim.UNKNOWN: "accepted"}


class KeyInvalid(TerminalError):
    """The given text does not parse as a key of this pipeline."""

    exit_code = 64

    def __init__(self, pipeline: str, given: tuple[str, ...], fields: tuple[str, ...], wrong: str) -> None:
        super().__init__(pipeline, given, fields, wrong)
        self.pipeline, self.given, self.fields, self.wrong = pipeline, given, fields, wrong

    def __str__(self) -> str:
        return f"{' '.join(self.given)!r} is no key of {self.pipeline}: {self.wrong}; give {', '.join(self.fields)}"


_EVERY = 0
"""Stands for all batches."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A line with the key. `batch` is None while no batch has read it."""

    file: str
    line: int
    batch: int | None
    role: str  # event, duplicate, refused, waits, waited or not read yet


@dataclass(slots=True)
class EventTrace:
    """Everything found about one key."""

    pipeline: str
    key: tuple[str, ...]
    place: str  # fact, held, backlog, quarantine, landing or nowhere
    claim: dict[str, Any]
    fact: dict[str, Any] | None = None
    masters: dict[str, dict[str, Any]] = field(default_factory=dict)
    mart: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    aggregates: list[str] = field(default_factory=list)
    backlog: list[dict[str, Any]] = field(default_factory=list)
    quarantine: list[dict[str, Any]] = field(default_factory=list)
    landed: list[Occurrence] = field(default_factory=list)
    batches: dict[int, dict[str, Any]] = field(default_factory=dict)


class Tracer:
    """Searches for one event; read-only."""

    def __init__(self, pipeline: Pipeline, places: Places, ledger: Ledger, dsn: str, given: Sequence[str]) -> None:
        self._pipeline, self._places, self._ledger, self._dsn = pipeline, places, ledger, dsn
        self._given = tuple(given)
        self._key = key_row(pipeline, self._given)
        lo, hi = lanes(event_keys(self._key, pipeline.stream))
        self._lanes: tuple[U64, U64] = (lo, hi)
        self._deadly: dict[tuple[str, int | None], frozenset[int]] = {}  # by file and batch; None: in any batch
        self._refused: RefusedFiles = frozenset()

    def trace(self, now: datetime, *, raw: bool = True) -> EventTrace:
        """Trace the event; `raw` searches the raw files, too."""
        held = ClaimIndex(self._places.claims, self._ledger.claim_runs()).find(*self._lanes)
        state, batch = _STATES[int(held.state[0])], int(held.batch[0])
        found = EventTrace(self._pipeline.name, self._given, "nowhere", {"state": state, "batch": batch or None})
        self._add_quarantine(found)
        self._add_backlog(found, state, batch)
        if state == "accepted":
            self._add_fact(found, batch)
        if raw:
            found.landed = list(self._landed(found, now))
        found.place = "held" if found.fact is None and batch in self._held() else _place(found)
        for number in sorted(_batches(found)):
            found.batches[number] = self._batch(number)
        return found

    def _held(self) -> set[int]:
        """Batches whose accepted events wait for a person's decision, or for the next batch to apply it."""
        return {record.batch for record in (*self._ledger.unjudged(), *self._ledger.asides())}

    # ── tables ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _rows(self, table: str) -> pa.Table:
        from deltalake import DeltaTable

        folder = self._places.tables / table
        if not folder.is_dir():
            return pa.table({})
        same = ds.scalar(True)
        for name in self._pipeline.stream.key:
            same = same & (ds.field(name) == self._key.column(name)[0])
        return DeltaTable(str(folder)).to_pyarrow_dataset().to_table(filter=same)

    def _add_fact(self, found: EventTrace, batch: int) -> None:
        rows = self._rows(FACT).to_pylist()
        record = self._ledger.find(batch)
        versions = {} if record is None else record.master_versions
        row = rows[0] if rows else {}
        found.fact = {name: self._shown(name, value) for name, value in row.items()} or None
        for master in self._pipeline.masters:
            key = row.get(f"{master.name}_key")
            found.masters[master.name] = {"version": versions.get(master.name), "dimension_key": key}
        values = {name: self._key.column(name)[0].as_py() for name in self._pipeline.stream.key}
        for table in self._pipeline.mart:
            if table.is_aggregate:
                found.aggregates.append(table.name)
            else:
                in_mart = mart.find(self._dsn, table.name, values) if row else None
                found.mart[table.name] = None if in_mart is None else {k: _plain(v) for k, v in in_mart.items()}

    def _shown(self, column: str, value: Any) -> Any:
        pipeline = self._pipeline
        hidden = {name.replace(".", "_") for name in pipeline.sensitive}
        return MASK if column in hidden and value is not None else _plain(value)

    def _add_quarantine(self, found: EventTrace) -> None:
        quarantine = Quarantine(self._pipeline, self._places, self._ledger)
        self._refused = refused_files(self._pipeline, self._places)
        for line in quarantine.find(Selection(reason=POISON, open_only=False)):
            for place in ((line.source_file, None if line.from_backlog else line.id.batch), (line.source_file, _EVERY)):
                self._deadly[place] = self._deadly.get(place, frozenset()) | {line.line}
        texts = tuple(str(self._key.column(name).cast(pa.string())[0]) for name in self._pipeline.stream.key)
        for line in quarantine.find(Selection(key=texts, open_only=False)):
            earlier = [str(one.id) for one in quarantine.history(line)]
            found.quarantine.append({**quarantine.shown(line), "history": earlier})

    def _add_backlog(self, found: EventTrace, state: str, batch: int) -> None:
        for row in self._rows(BACKLOG).to_pylist():
            found.backlog.append(
                {
                    "batch": row["batch"],
                    "since": _plain(row["decided_at"]),
                    "reasons": row["reasons"],
                    "file": row["source_file"],
                    "line": row["line"],
                    "open": state == "waiting" and row["batch"] == batch,
                }
            )

    def _batch(self, number: int) -> dict[str, Any]:
        record = self._ledger.find(number)
        if record is None:
            return {"state": "forgotten"}
        return {
            "state": record.state,
            "run_id": record.run_id,
            "decided_at": _plain(record.decided_at),
            "loaded_at": _plain(record.loaded_at),
            "master_versions": record.master_versions,
        }

    # ── raw files ──────────────────────────────────────────────────────────────────────────────────────────────

    def _landed(self, found: EventTrace, now: datetime) -> Iterator[Occurrence]:
        refused = {(one["row"].partition("-")[0], one["file"], one["line"]) for one in found.quarantine}
        waited = {(one["batch"], one["file"], one["line"]): one["open"] for one in found.backlog}
        event_known = bool(waited)
        for batch, one in self._slices(now):
            for line in self._lines(*one, batch):
                place = (one[0].file.label, line)
                if batch is None:
                    role = "not read yet"
                elif (str(batch), *place) in refused:
                    role = "refused"
                elif (batch, *place) in waited:
                    role = "waits" if waited[(batch, *place)] else "waited"
                elif not event_known and batch == found.claim["batch"]:
                    role, event_known = "event", True
                else:
                    role = "duplicate"
                yield Occurrence(*place, batch, role)

    def _slices(self, now: datetime) -> Iterator[tuple[int | None, tuple[Slice, Reader]]]:
        """Slices that batches have read, at the file's current path, then landed slices that are unread."""
        source, folder = self._pipeline.stream.source, self._places.landing
        files = landing.scan(folder, source.format)  # first: it says in a sentence why a folder cannot be listed
        paths = {path.stat().st_ino: path for path in self._files()}
        for batch, one in self._ledger.all_slices():
            if is_range(one.file.name):
                if copy_path(self._places.archive, one).exists():
                    yield batch, (one, CopyReader(self._places.archive, one))
            elif one.file.inode in paths:
                yield batch, self._at(paths[one.file.inode], one)
        consumed = self._ledger.consumed([file.name for file in files]) if files else {}
        for one in landing.fix_slices(folder, files, consumed, source.format, now, Limits(batch_bytes=2**62)):
            yield None, self._at(folder / os.fsdecode(one.file.name), one)

    @staticmethod
    def _at(path: Path, one: Slice) -> tuple[Slice, Reader]:
        here = replace(one, file=replace(one.file, name=os.fsencode(path.name)))
        return one, SliceReader(path.parent, here)

    def _files(self) -> Iterator[Path]:
        for folder in (self._places.archive, self._places.landing):
            if folder.is_dir():
                yield from (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())

    def _lines(self, one: Slice, source: Reader, batch: int | None) -> Iterator[int]:
        """The numbers of the lines with the key."""
        lo, hi = self._lanes
        for events, _ in events_of(self._pipeline.stream, one, source, self._aside(one, batch)):
            found_lo, found_hi = lanes(event_keys(events.batch, self._pipeline.stream))
            whole = np.ones(len(events), np.bool_)
            for name in self._pipeline.stream.key:
                whole &= events.batch.column(name).is_valid().to_numpy(zero_copy_only=False)
            yield from events.line[whole & (found_lo == lo[0]) & (found_hi == hi[0])].tolist()

    def _aside(self, one: Slice, batch: int | None) -> LineChoice:
        """Poison lines, which crashed tasks, are not parsed here either. A file that landed again is another one.

        Lines are numbered in their slice, so those of other batches are not meant, unless nobody has read the slice.
        """
        label, format = one.file.label, self._pipeline.stream.source.format
        found = (
            self._deadly.get((label, number), frozenset()) for number in (_EVERY if batch is None else batch, None)
        )
        deadly = frozenset[int]().union(*found)
        if format == "parquet" and (label, written_at(one.file.modified_ns)) not in self._refused:
            deadly -= {WHOLE_FILE}
        return LineChoice(poison={one.ordinal: deadly})


def key_row(pipeline: Pipeline, given: Sequence[str]) -> pa.RecordBatch:
    """Parse text into the key of one event, in the types of its fields; times and dates as ISO 8601."""
    names = pipeline.stream.key
    if len(given) != len(names):
        raise KeyInvalid(pipeline.name, tuple(given), names, f"it has {len(names)} parts, not {len(given)}")
    columns = []
    for name, text in zip(names, given, strict=True):
        declared = pipeline.stream.field(name)
        try:
            columns.append(pa.array([default_value(replace(declared, default=text)).as_py()], declared.type))
        except DefaultInvalid as error:
            raise KeyInvalid(pipeline.name, tuple(given), names, f"{text!r} is not a {error.type_name}") from None
    return pa.RecordBatch.from_arrays(columns, names=list(names))


def _place(found: EventTrace) -> str:
    if found.claim["state"] == "accepted":
        return "fact"
    if found.claim["state"] == "waiting":
        return "backlog"
    if found.quarantine:
        return "quarantine"
    return "landing" if found.landed else "nowhere"


def _batches(found: EventTrace) -> set[int]:
    numbers = {one.batch for one in found.landed} | {one["batch"] for one in found.backlog} | {found.claim["batch"]}
    numbers |= {int(one["row"].partition("-")[0]) for one in found.quarantine}
    return {number for number in numbers if number is not None}


def _plain(value: Any) -> Any:
    """A value in a JSON type."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
