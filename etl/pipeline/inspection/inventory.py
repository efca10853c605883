"""Count every event in the raw files and in the tables. Nothing is taken from the ledger that can be counted.

    raw files (landing and archive) ── lines ──┐      of a topic: copies in the archive
    fact, quarantine, open backlog ── rows ────┼──▶ do the sums hold? if not: which one, by how much
    ledger ── recorded counts ─────────────────┘

A full count reads everything once; `frontstage audit` does it on demand. Every batch checks a part of it: lines read
against events routed, rows of the accepted files against rows decided, rows copied to the mart against events accepted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from etl.adapters import landing, postgres, unreadable
from etl.adapters.claims import WAITING, ClaimIndex
from etl.adapters.kafka.copies import SUFFIX
from etl.adapters.landing import format_of, is_release
from etl.adapters.ledger import BatchRecord, Ledger
from etl.adapters.regular_file import reason_of
from etl.adapters.unlistable import LandingAway, LandingShut
from etl.adapters.verdicts import Verdicts
from etl.contract.model import Format, Pipeline
from etl.ingest.lines import LineReader
from etl.ingest.parquet_batches import bounded_batches
from etl.pipeline.input import topic_lines
from etl.pipeline.inspection.removed_days import removed_days
from etl.pipeline.review.release_notes import ReleaseNotes
from etl.pipeline.tasks.line_choice import POISON, WHOLE_FILE
from etl.pipeline.tasks.plan import BACKLOG, FACT, HELD, QUARANTINE, Places

Identity = tuple[int, int]
"""Device and inode of a file."""
RefusedFiles = frozenset[tuple[str, datetime]]
"""Files by the name under which they landed and the second in which they were last written."""
_COUNTED = re.compile(r"~\d+$")  # what the archive appends to a name that is taken
_BLOCK = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Inventory:
    """Actual and expected counts."""

    pipeline: str
    raw_lines: int  # consumed by loaded batches, counted again in the files
    fact: int
    fact_keys: int  # distinct
    quarantine: int
    backlog_open: int
    duplicates: int  # from the ledger: duplicates are stored nowhere
    mart: Mapping[str, int]
    mart_expected: Mapping[str, int]  # facts since a batch was first decided with this table
    ledger: Mapping[str, int]
    released: Mapping[str, int] = field(default_factory=dict)  # by file of released lines: lines that people released
    released_noted: Mapping[str, int] = field(default_factory=dict)  # the same by the notes beside the data
    released_found: Mapping[str, int] = field(default_factory=dict)  # the same, counted in the files that still exist
    released_by_nobody: tuple[str, ...] = ()  # somebody else's files with such a name: ordinary input
    rejected: int = 0  # refused lines that stay out for good
    held: int = 0  # accepted events that wait for a person's decision
    copies_missing: tuple[str, ...] = ()  # offsets that batches have read and that are missing in the archive
    unreadable: tuple[str, ...] = ()  # files that cannot be read, each with the reason; their lines are not counted

    @property
    def faults(self) -> list[str]:
        """Every sum that does not hold, in words."""
        placed = self.fact + self.quarantine + self.backlog_open + self.held + self.duplicates
        found = []
        if self.unreadable:
            more = f" and {len(self.unreadable) - 3} more" if len(self.unreadable) > 3 else ""
            found.append(f"cannot be read, so not counted: {', '.join(self.unreadable[:3])}{more}")
        if self.copies_missing:
            lacking = ", ".join(self.copies_missing[:3])
            found.append(f"the archive lacks {lacking}: these offsets cannot be counted again")
        if placed != self.raw_lines:
            found.append(f"{self.raw_lines} lines are in the raw files, {placed} events are in a place")
        for file, lines in self.released_noted.items():
            if lines != self.released.get(file, 0):
                found.append(f"{lines} lines were released into {file}, the ledger says {self.released.get(file, 0)}")
        for file, lines in self.released_found.items():
            if lines != self.released.get(file, 0):
                found.append(f"{file} has {lines} lines, {self.released.get(file, 0)} were released into it")
        if self.fact != self.fact_keys:
            found.append(f"{self.fact - self.fact_keys} events are in the fact table more than once")
        for table, rows in self.mart.items():
            if rows != self.mart_expected[table]:
                found.append(f"mart.{table} has {rows} rows, the fact table {self.mart_expected[table]}")
        expected = (("lines", self.raw_lines), ("fact", self.fact), ("quarantine", self.quarantine),
                    ("backlog_open", self.backlog_open + self.held))  # fmt: skip
        for name, counted in expected:
            if self.ledger.get(name, 0) != counted:
                found.append(f"the ledger says {self.ledger.get(name, 0)} {name}, {counted} were counted")
        return found

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "balanced": not self.faults, "faults": self.faults}


def take(pipeline: Pipeline, places: Places, ledger: Ledger, dsn: str) -> Inventory:
    """Count everything of one pipeline that is loaded; the partial results of a running batch are left out."""
    from deltalake import DeltaTable

    begun = ledger.oldest_unloaded()
    under_way = None if begun is None or begun.decision is None else begun
    tables = {
        name: DeltaTable(str(places.tables / name)).to_pyarrow_dataset().filter(_loaded(under_way))
        for name in (FACT, QUARANTINE, BACKLOG)
    }
    key = list(pipeline.stream.key)
    fact = tables[FACT].to_table(columns=[*key, "batch"])
    runs = [run for run in ledger.claim_runs() if under_way is None or run.batch < under_way.batch]
    loaded = [table.name for table in pipeline.mart if not table.is_aggregate]
    raw = _count_raw(pipeline, places, ledger, refused_files(pipeline, places, under_way))
    verdicts = Verdicts(ledger)
    noted = _noted_lines(places)  # first: what is noted was committed before
    released = verdicts.by_file()
    found = _released_lines(places)
    ours = released.keys() | noted.keys()
    return Inventory(
        pipeline=pipeline.name,
        raw_lines=raw.lines - (0 if under_way is None else under_way.counts.lines),
        fact=fact.num_rows,
        fact_keys=fact.group_by(key).aggregate([]).num_rows,
        quarantine=tables[QUARANTINE].count_rows(),
        backlog_open=_open(tables[BACKLOG], ClaimIndex(places.claims, runs)),
        duplicates=ledger.totals().get("duplicates", 0),
        mart={table: _rows(dsn, table) for table in loaded},
        mart_expected={table: _facts_since(fact, ledger.first_batch_with(table)) for table in loaded},
        ledger=ledger.totals(),
        released=released,
        released_noted=noted,
        released_found={file: lines for file, lines in found.items() if file in ours},
        released_by_nobody=tuple(sorted(found.keys() - ours)),
        rejected=verdicts.counts()["rejected"],
        held=_held(places, ledger, under_way),
        copies_missing=topic_lines.copies_missing(places.archive, ledger, removed_days(places, ledger)),
        unreadable=tuple(raw.unreadable),
    )


def _held(places: Places, ledger: Ledger, under_way: BatchRecord | None) -> int:
    """Rows in fact files that wait for a person's decision, and in those that a running batch takes up."""
    taken = () if under_way is None else under_way.decided.taken_up
    records = [*ledger.asides(), *(ledger.get(one.batch) for one in taken)]
    asides = [one.decided.aside for one in records if under_way is None or one.batch != under_way.batch]
    paths = [
        places.tables / HELD / file.path
        for aside in asides
        if aside is not None
        for file in aside.files
        if file.table == FACT
    ]
    return sum(int(pq.read_metadata(path).num_rows) for path in paths)


def _noted_lines(places: Places) -> dict[str, int]:
    """Lines of releases by the notes beside the data."""
    notes = ReleaseNotes(places.releases)
    counted = {file: len(notes.read(file).rows) for file in sorted(notes.files())}
    return {file: lines for file, lines in counted.items() if lines}


def _released_lines(places: Places) -> dict[str, int]:
    """Lines in files with the name of a file of released lines, in the landing folder or the archive."""
    paths = [path for folder in (places.landing, places.archive) for path in _files(folder, "")]
    found = {}
    for path in (path for path in paths if is_release(_name(path)) and not path.is_symlink()):
        with suppress(PermissionError):  # named among the raw files
            found[path.name] = _lines(path, "jsonl", None)
    return found


def _loaded(under_way: BatchRecord | None) -> ds.Expression:
    return ds.field("batch") < (under_way.batch if under_way is not None else 2**62)


def _open(backlog: ds.Dataset, claims: ClaimIndex) -> int:
    """Events of the backlog that are open: those whose claim says `waiting`."""
    rows = backlog.to_table(columns=["key_lo", "key_hi", "batch"])
    if not rows.num_rows:
        return 0
    lo, hi = (rows[name].combine_chunks().view(pa.uint64()).to_numpy() for name in ("key_lo", "key_hi"))
    held = claims.find(lo, hi)
    return int(((held.state == WAITING) & (held.batch == rows["batch"].to_numpy())).sum())


def _facts_since(fact: pa.Table, batch: int | None) -> int:
    return 0 if batch is None else int(pc.sum(pc.greater_equal(fact["batch"], batch)).as_py() or 0)


def _rows(dsn: str, table: str) -> int:
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        from psycopg2 import sql

        cursor.execute(sql.SQL("select count(*) from {}").format(sql.Identifier("mart", table)))
        (count,) = cursor.fetchone() or (0,)
        return int(count)


@dataclass(slots=True)
class _Raw:
    """Consumed lines in raw files: how many, in which files, and the files that cannot be read."""

    lines: int = 0
    files: set[Identity] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)

    def count(self, path: Path, format: Format, end: int | None, refused: RefusedFiles) -> None:
        """Count a file up to an offset, unless it was counted before."""
        identity = _identity(path)
        if identity in self.files:
            return
        try:
            self.lines += _lines(path, format, end, refused)
        except FileNotFoundError:
            raise
        except OSError as error:
            self.unreadable.append(f"{_label(path)!a} ({reason_of(error)})")
        self.files.add(identity)


def _count_raw(pipeline: Pipeline, places: Places, ledger: Ledger, refused: RefusedFiles) -> _Raw:
    """Lines of all consumed input: landed files up to the consumed offset, and whole files of the archive.

    A batch may archive files meanwhile. So the landing folder is counted first, and the files counted there are left
    out of the archive; a file that has left the landing folder is in the archive by the time that is listed.
    """
    format, removed = pipeline.stream.source.format, removed_days(places, ledger)
    raw = _count_landed(places.landing, format, ledger, refused)
    days = [day for day in places.archive.glob("*") if day.name not in removed]
    for path in (path for day in days for path in _files(day, format)):
        raw.count(path, format, None, refused)
    raw.lines += sum(removed.values()) + topic_lines.messages(pipeline, days, ledger)
    return raw


def _count_landed(folder: Path, format: Format, ledger: Ledger, refused: RefusedFiles) -> _Raw:
    """Consumed lines in the landing folder; a file that no batch could open is named, too."""
    raw = _Raw()
    try:
        landed = landing.scan(folder, format)
    except (LandingAway, LandingShut) as error:
        raw.unreadable.append(error.what)
        return raw
    here = list(_files(folder, format))
    if not here:
        return raw
    consumed = ledger.consumed([_name(path) for path in here])
    for path in here:
        if _name(path) in consumed:
            with suppress(FileNotFoundError):
                raw.count(path, format, consumed[_name(path)].end, refused)
    waiting = unreadable.find(folder, landed, consumed)
    raw.unreadable += [str(one) for one in waiting if str(one) not in raw.unreadable]
    return raw


def refused_files(pipeline: Pipeline, places: Places, under_way: BatchRecord | None = None) -> RefusedFiles:
    """Parquet files that were refused as one row each: no task survives decoding them, so they are not decoded here.

    A batch that is decided and not loaded, `under_way`, has refused files that the table does not show yet.
    """
    from deltalake import DeltaTable

    if pipeline.stream.source.format != "parquet":
        return frozenset()
    table = DeltaTable(str(places.tables / QUARANTINE)).to_pyarrow_dataset()
    parts = () if under_way is None else under_way.decided.of_table(QUARANTINE)
    found = [table, *(ds.dataset(places.tables / QUARANTINE / one.path) for one in parts)]
    names, whole = ["source_file", "landed_at", "reasons"], ds.field("line") == WHOLE_FILE
    rows = [row for one in found for row in one.to_table(columns=names, filter=whole).to_pylist()]
    return frozenset(
        (row["source_file"], row["landed_at"].replace(microsecond=0)) for row in rows if POISON in row["reasons"]
    )


def written_at(modified_ns: int) -> datetime:
    """The second in which a file was last written, rounded like `landed_at`."""
    return datetime.fromtimestamp(modified_ns / 1e9, UTC).replace(microsecond=0)


def lines_under(folder: Path, format: Format, refused: RefusedFiles) -> int:
    """Lines of all files in a folder of the archive."""
    return sum(_lines(path, format, None, refused) for path in _files(folder, format))


def _identity(path: Path) -> Identity:
    """Device and inode, which survive a rename."""
    seen = path.stat()
    return seen.st_dev, seen.st_ino


def _label(path: Path) -> str:
    """The name as valid text."""
    return _name(path).decode("utf-8", "backslashreplace")


def _name(path: Path) -> bytes:
    return os.fsencode(path.name)


def _files(folder: Path, format: str) -> Iterator[Path]:
    if folder.is_dir():
        yield from (path for path in sorted(folder.rglob("*")) if _is_input(path, format))


def _is_input(path: Path, format: str) -> bool:
    return f".{format}" in path.name and not path.name.endswith(SUFFIX) and path.is_file()


def _lines(path: Path, format: Format, end: int | None, refused: RefusedFiles = frozenset()) -> int:
    format = format_of(_name(path), format)
    if format == "parquet":
        if (_COUNTED.sub("", _label(path)), written_at(path.stat().st_mtime_ns)) in refused:
            return 1
        path.open("rb").close()  # a file that cannot be opened is not one that is damaged
        return _parquet_rows(path)
    reader, count = LineReader(), 0
    left = path.stat().st_size if end is None else end
    with path.open("rb") as file:
        while left and (block := file.read(min(_BLOCK, left))):
            count += len(reader.feed(block))
            left -= len(block)
    count += len(reader.finish())
    return count - 1 if format == "csv" and count else count


def _parquet_rows(path: Path) -> int:
    """Rows that can be read; what cannot be read is one event in quarantine."""
    count = 0
    try:
        with path.open("rb", buffering=0) as file:
            for batch in bounded_batches(file):  # as a batch reads them: rows before a damaged part count
                count += batch.num_rows
    except (pa.ArrowException, OSError):
        count += 1
    return count
