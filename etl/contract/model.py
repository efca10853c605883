"""One pipeline as checked, frozen values: everything that its file declares.

    Pipeline ─┬─ Stream      source, format, fields, key, event time     → what ingest parses
              ├─ rules       ranges, sets, patterns, SQL over the row    → why a row is refused
              ├─ masters     tables that enrich it, required or optional → the joins every event meets
              ├─ measures    SQL expressions                             → columns of the fact
              ├─ mart        tables in Postgres: rows and aggregates
              └─ expectations, sensitive columns                         → the audit and its pages

Values only: nothing here reads files, refers to an example, or imports from outer layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

Format = Literal["jsonl", "csv", "parquet"]
Scalar = bool | int | float | str | None
Distribution = Literal["volume", "quarantined", "duplicates", "unmatched", "hit_ratio", "null_share", "mean"]
"""Figures of a batch that are compared with earlier batches."""
Drift = Literal["stop", "quarantine"]
"""What to do with a batch whose events lack a field, or have it in another type."""
History = Literal["scd1", "scd2", "none"]
"""How a master becomes a dimension: newest values, all versions, or no dimension (its columns enter the fact)."""
Shedding = Literal["consider", "keep", "none"]
"""What a batch does when more events wait than it can serve in time."""
AfterGrace = Literal["quarantine", "unknown"]
"""The route of events whose required master row missed the grace: quarantine, or fact with the unknown member."""
Held = Literal["wait", "go_on"]
"""What later batches do while a batch is held by its audit."""
Start = Literal["earliest", "latest"]
"""Where the first batch begins in a topic: at the earliest offset, or at the latest."""
Tombstones = Literal["quarantine", "skip"]
"""What to do with messages without a value."""
OffsetLoss = Literal["stop", "skip"]
"""What a batch does when unread offsets are lost, or the topic was recreated."""


@dataclass(frozen=True, slots=True)
class Field:
    """One typed value of an event. `source` is its name in the input; `strip` are characters removed before reading."""

    name: str
    type: pa.DataType
    required: bool = True
    default: Scalar = None
    source: str = ""
    format: str | None = None  # strptime pattern of a date or timestamp; None: ISO 8601
    strip: str = ""

    @property
    def source_name(self) -> str:
        return self.source or self.name

    @property
    def nullable(self) -> bool:
        """Whether an accepted event may have no value."""
        return not self.required and self.default is None


@dataclass(frozen=True, slots=True)
class RelativeTime:
    """A moment that is fixed when a batch starts: `now + offset`."""

    offset: timedelta


Bound = int | float | str | datetime | RelativeTime | None
"""One end of a range; a `str` is a decimal number, a date or a time in the type of its column."""


@dataclass(frozen=True, slots=True)
class RangeRule:
    """The column lies between two bounds, both inclusive; either may be absent."""

    name: str
    column: str
    min: Bound = None
    max: Bound = None


@dataclass(frozen=True, slots=True)
class SetRule:
    """The column has one of these values."""

    name: str
    column: str
    values: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class PatternRule:
    """All of the column's text matches a regular expression (RE2)."""

    name: str
    column: str
    pattern: str


@dataclass(frozen=True, slots=True)
class ExpressionRule:
    """A SQL expression over the row is true. NULL is not true."""

    name: str
    sql: str


Rule = RangeRule | SetRule | PatternRule | ExpressionRule
"""Ranges, sets and patterns do not apply to rows without a value, which have the field's own reason."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A Kafka topic whose messages are events, one each."""

    name: str
    servers: str | None = None  # host:port, comma-separated; None: from the settings
    start: Start = "earliest"
    tombstones: Tombstones = "quarantine"
    on_loss: OffsetLoss = "stop"


@dataclass(frozen=True, slots=True)
class Source:
    """Where events arrive: a folder of files, or a topic. Text files hold one event a line.

    A pipeline with a topic has a landing folder, too: lines that people release from quarantine come back there.
    """

    landing: Path
    format: Format = "jsonl"
    delimiter: str = ","  # of CSV
    topic: Topic | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """The events of a stream: source, fields, key."""

    source: Source
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    event_time: str | None = None

    def field(self, name: str) -> Field:
        return next(one for one in self.fields if one.name == name)

    @property
    def schema(self) -> pa.Schema:
        """The typed columns of a line, in declared order; all nullable, as refused lines lack values."""
        return pa.schema([pa.field(one.name, one.type) for one in self.fields])

    @property
    def accepted_schema(self) -> pa.Schema:
        """The same for accepted events: required fields are not null."""
        return pa.schema([pa.field(one.name, one.type, nullable=one.nullable) for one in self.fields])


@dataclass(frozen=True, slots=True)
class Master:
    """A master table and what events receive from it, under `name`.

    `on` pairs stream fields with the master's key columns, in the order of the key. Without `columns`, events receive
    all but the key; `resolve.check_against` lists them. With scd2 the version is always one of the columns.
    """

    name: str
    store: Literal["postgres", "delta"]
    table: str  # schema.table, or the path of a Delta table
    on: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    required: bool = True  # an event without its row waits; otherwise it goes on with NULLs
    version: str | None = None  # column that dates a row, needed by scd2
    history: History = "scd1"
    follow: Literal["change_log", "updated_at"] = "change_log"

    @property
    def key_columns(self) -> tuple[str, ...]:
        return tuple(column for _, column in self.on)

    @property
    def stream_columns(self) -> tuple[str, ...]:
        return tuple(column for column, _ in self.on)

    def location(self, home: Path) -> str:
        """The table's location: `schema.table`, or the absolute path or URL of a Delta table."""
        return self.table if self.store == "postgres" or "://" in self.table else str(home / self.table)


@dataclass(frozen=True, slots=True)
class MartTable:
    """A table of the Postgres mart. Rows: `columns` by SQL. Aggregate: `group_by` and `values` by SQL."""

    name: str
    columns: Mapping[str, str] = field(default_factory=dict)
    group_by: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_aggregate(self) -> bool:
        return bool(self.values)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A whole-batch expectation by its Great Expectations type, such as `expect_column_mean_to_be_between`."""

    type: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Everything declared about one stream and its way into the warehouse."""

    name: str
    stream: Stream
    rules: tuple[Rule, ...] = ()
    masters: tuple[Master, ...] = ()
    measures: Mapping[str, str] = field(default_factory=dict)  # by name, SQL over fields and `master.column`
    mart: tuple[MartTable, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    sensitive: frozenset[str] = frozenset()
    schedule: str = "on_arrival"
    deadline: timedelta = timedelta(seconds=30)
    freshness: timedelta | None = None  # of a run, before an alert
    shedding: Shedding = "consider"
    grace: timedelta = timedelta(days=7)
    schema_drift: Drift = "stop"
    after_grace: AfterGrace = "quarantine"
    held: Held = "wait"
    hold_on: frozenset[Distribution] = frozenset()  # kinds of figures whose change holds a batch; others only warn
    file: Path | None = None

    def may_lack(self, master: Master) -> bool:
        """Whether an accepted event may be without a row of this master."""
        return not master.required or self.after_grace == "unknown"
