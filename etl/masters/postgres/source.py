"""A master table in Postgres as a source of master pages: a snapshot, and the changes since.

    snapshot   one read-only transaction: its position, then COPY … ORDER BY key, as Arrow, batch by batch
    changes    keys in the change log that are invisible in the last snapshot ─► their current rows
               a key without a row was deleted

The position is the snapshot itself (`xmin:xmax:running`), not a sequence number: transactions do not commit in the
order of their ids. A change that was invisible in one snapshot, because its transaction was running or had not begun,
is read exactly once by a later one. Where triggers are not allowed, the timestamp column is used instead, with an
overlap; deletions then wait for the next full publish.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

import adbc_driver_manager
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import errorcodes, errors

from etl.adapters import postgres
from etl.errors import MasterUnavailable, MissingPart, PostgresUnavailable
from etl.masters.driver_state import driver_state
from etl.masters.pages.errors import ColumnMismatch, RepublishNeeded
from etl.masters.source import Changes, Position, Snapshot

Follow = Literal["change_log", "updated_at"]

_READ = "set transaction isolation level repeatable read read only"
_PRESENT = "__present"
_REWRITTEN = "it was truncated or changed in bulk"


class PostgresMaster:
    """One master table. `columns` are those to publish besides the key; by default all."""

    def __init__(
        self,
        dsn: str,
        table: str,
        key: Sequence[str],
        columns: Sequence[str] | None = None,
        *,
        follow: Follow = "change_log",
        dated_by: str = "updated_at",
        overlap: timedelta = timedelta(minutes=10),
    ) -> None:
        self._dsn, self._table, self._key, self._columns = dsn, table, tuple(key), columns
        self._follow, self._dated_by, self._overlap = follow, dated_by, overlap

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """All rows in key order, inside one transaction for the duration of the block."""
        with self._reading() as ask:
            position = self._position(ask)
            columns = self._described(ask)
            order = _list(columns[name].ordered() for name in self._key)
            text = f"select {_selected(columns)} from {_quoted(self._table)} order by {order}"  # noqa: S608
            reader = ask(text)
            yield Snapshot(_plain_schema(reader.schema), self._key, self._batches(reader), position, presorted=True)

    def changes(self, since: Position) -> Changes:
        """The changes after a position. Raises `RepublishNeeded` when they are no longer known."""
        with self._reading() as ask:
            now = self._position(ask)
            self._check_same_history(since, now)
            columns = self._described(ask)
            if self._follow == "updated_at":
                return self._newer(ask, columns, since, now)
            self._check_log(ask, since)
            return self._touched(ask, columns, since, now)

    # --- by change log

    def _touched(self, ask: Ask, columns: Mapping[str, _Column], since: Position, now: Position) -> Changes:
        keys = {name: f"k{number}" for number, name in enumerate(self._key)}
        types = self._key_types(ask)
        cast = ", ".join(f"(key->>{i})::{types[name]} as {keys[name]}" for i, name in enumerate(self._key))
        match = " and ".join(f"m.{_quoted(name)} = t.{keys[name]}" for name in self._key)
        picked = [columns[name].selected(f"t.{keys[name]}") for name in self._key]
        picked += [column.selected(f"m.{_quoted(name)}") for name, column in columns.items() if name not in keys]
        text = (
            f"with touched as (select distinct {cast} from ({postgres.statement('master_changes')}) c "  # noqa: S608
            f"where key is not null) select {_list(picked)}, m.{_quoted(self._key[0])} is not null as {_PRESENT} "
            f"from touched t left join {_quoted(self._table)} m on {match}"
        )
        rows = self._rows(ask(text, (self._table, since["snapshot"])))
        present = rows.column(_PRESENT)
        upserts = rows.filter(present).drop_columns([_PRESENT])
        return Changes(upserts, self._keys_of(rows.filter(pc.invert(present))), now)

    def _check_log(self, ask: Ask, since: Position) -> None:
        given = (self._table, since["snapshot"])
        (state,) = self._rows(ask(postgres.statement("master_log_state"), given)).to_pylist()
        if state["ahead"]:
            raise RepublishNeeded(self._table, "the server went back in time, as after restoring a backup")
        if state["pruned"]:
            raise RepublishNeeded(self._table, "entries of its change log were pruned before they were read")
        whole = ask(f"select op from ({postgres.statement('master_changes')}) c where key is null", given)  # noqa: S608
        if self._rows(whole).num_rows:
            raise RepublishNeeded(self._table, _REWRITTEN)

    # --- by updated_at

    def _newer(self, ask: Ask, columns: Mapping[str, _Column], since: Position, now: Position) -> Changes:
        start = datetime.fromisoformat(since["quiet_since"]) - self._overlap
        text = (
            f"select {_selected(columns)} from {_quoted(self._table)} "  # noqa: S608
            f"where {_quoted(self._dated_by)} >= $1::timestamptz"
        )
        rows = self._rows(ask(text, (start.isoformat(),)))
        return Changes(rows, self._keys_of(rows.slice(0, 0)), now)

    # --- both

    def _position(self, ask: Ask) -> dict[str, Any]:
        (row,) = self._rows(ask(postgres.statement("master_position"))).to_pylist()
        position = {
            **row,
            "quiet_since": row["quiet_since"].isoformat(),
            "follow": self._follow,
            "feed": "",
            "file": "",
        }
        if self._follow == "change_log":
            (fed,) = self._rows(ask(postgres.statement("master_log_feed"), (self._table,))).to_pylist()
            position |= fed
        return position

    def _check_same_history(self, since: Position, now: Position) -> None:
        reasons = {
            "server": "it is on another server now",
            "timeline": "its server was restored or replaced",
            "database": "its database was made anew",
            "follow": "its changes are followed in another way now",
            "feed": "its change log was not fed all the time",
            "file": _REWRITTEN,
        }
        for part, reason in reasons.items():
            if str(since.get(part)) != str(now[part]):
                raise RepublishNeeded(self._table, reason)
        if self._follow == "change_log" and not now["feed"]:
            raise RepublishNeeded(self._table, "its change log is not fed; `frontstage master follow` sees to that")

    def _described(self, ask: Ask) -> dict[str, _Column]:
        """Every column that is published."""
        wanted = "*" if self._columns is None else _list(map(_quoted, [*self._key, *self._columns]))
        schema = ask(f"select {wanted} from {_quoted(self._table)} limit 0").schema  # noqa: S608
        return {field.name: _Column.of(field) for field in schema}

    def _key_types(self, ask: Ask) -> dict[str, str]:
        text = (
            "select attname::text as name, format_type(atttypid, atttypmod) as type from pg_attribute "
            "where attrelid = to_regclass($1) and attnum > 0 and not attisdropped"
        )
        rows = self._rows(ask(text, (self._table,))).to_pylist()
        return {row["name"]: row["type"] for row in rows}

    def _keys_of(self, rows: pa.Table) -> pa.Array:
        parts = [rows.column(name).combine_chunks() for name in self._key]
        return parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(parts, names=list(self._key))

    def _batches(self, reader: Any) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                batch = next(reader, None)
            except (pa.ArrowException, OSError) as error:  # raised by a connection that breaks half-way
                raise MasterUnavailable(self._table) from error
            if batch is None:
                return
            yield self._plain(batch)

    def _rows(self, reader: Any) -> pa.Table:
        return pa.Table.from_batches(self._batches(reader), _plain_schema(reader.schema))

    def _plain(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        schema = _plain_schema(batch.schema)
        columns = [self._cast(*pair) for pair in zip(batch.columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _cast(self, column: pa.Array, field: pa.Field) -> pa.Array:
        storage = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
        try:
            return storage.cast(field.type)
        except pa.ArrowInvalid:  # NaN and Infinity are numbers to Postgres
            raise ColumnMismatch(self._table, field.name, "no finite number in some row", str(field.type)) from None

    @contextmanager
    def _reading(self) -> Iterator[Ask]:
        """One repeatable-read, read-only transaction."""
        try:
            with driver_state().arrow.connect(self._dsn) as connection, ExitStack() as cursors:
                ask = partial(_ask, connection, cursors)
                ask(postgres.LOCK_TIMEOUT)
                ask(_READ)
                yield ask
        except adbc_driver_manager.Error as error:
            wrong = isinstance(error, adbc_driver_manager.ProgrammingError)
            if not wrong or error.sqlstate == errorcodes.LOCK_NOT_AVAILABLE:
                raise PostgresUnavailable(postgres.place(self._dsn), _first_line(error)) from None
            raise MissingPart(f"master table {self._table} cannot be read ({_first_line(error)})", _REMEDY) from None


@dataclass(frozen=True, slots=True)
class _Column:
    """How a column is read: in its own type, or as text when Arrow has no flat type for it."""

    name: str
    as_text: bool
    is_text: bool

    @classmethod
    def of(cls, field: pa.Field) -> _Column:
        foreign = isinstance(field.type, pa.BaseExtensionType) and not _is_numeric(field)
        return cls(field.name, foreign, foreign or bool(pa.types.is_string(field.type)))

    def selected(self, expression: str) -> str:
        return f"{expression}{'::text' if self.as_text else ''} as {_quoted(self.name)}"

    def ordered(self) -> str:
        """The ORDER BY expression: text by its bytes, as pages are sorted."""
        cast = "::text" if self.as_text else ""
        return f"{_quoted(self.name)}{cast}" + (' collate "C"' if self.is_text else "")


Ask = Callable[..., Any]
"""A statement and its values → a reader of Arrow batches."""

_REMEDY = "create it, grant SELECT on it, or correct its name in the pipeline's file"
_OR_BY = 'grant TRIGGER on it, or write follow = "updated_at" in the pipeline\'s file'


def keep_change_log(dsn: str, table: str, key: Sequence[str]) -> bool:
    """Create triggers that log a table's changes; False when they exist already."""
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(postgres.statement("master_log_feed").replace("$1", "%(table)s"), {"table": table})
        feed, *_ = cursor.fetchone() or ("",)
        if feed:
            return False
        try:
            cursor.execute("select master.keep_change_log(%s::regclass, variadic %s)", (table, list(key)))
        except (errors.InsufficientPrivilege, errors.WrongObjectType, errors.FeatureNotSupported) as error:
            raise MissingPart(
                f"changes of master table {table} cannot be noted ({_first_line(error)})", _OR_BY
            ) from None
        except (errors.UndefinedTable, errors.InvalidSchemaName) as error:
            raise MissingPart(f"master table {table} cannot be followed ({_first_line(error)})", _REMEDY) from None
        connection.commit()
        return True


def prune_change_log(dsn: str, table: str, position: Position) -> int:
    """Delete log entries that a store at `position`, or later, has read. Returns how many."""
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(postgres.statement("master_log_prune"), {"table": table, "snapshot": position["snapshot"]})
        connection.commit()
        return cursor.rowcount


def _ask(connection: Any, cursors: ExitStack, text: str, values: tuple[Any, ...] | None = None) -> Any:
    cursor = cursors.enter_context(connection.cursor())  # a reader lives as long as its cursor
    cursor.execute(text, parameters=values)
    return cursor.fetch_record_batch()


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([_plain_field(field) for field in schema])


def _plain_field(field: pa.Field) -> pa.Field:
    """Numerics with a fixed scale become decimals; those without one stay exact text."""
    if _is_numeric(field):
        typmod = int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1"))
        fixed = typmod >= 4
        return pa.field(field.name, _decimal(typmod - 4) if fixed else pa.string())
    return pa.field(field.name, field.type)


def _decimal(packed: int) -> pa.DataType:
    return pa.decimal128(packed >> 16 & 0xFFFF, packed & 0x7FF)


def _is_numeric(field: pa.Field) -> bool:
    return bool((field.metadata or {}).get(b"POSTGRESQL:type") == b"numeric")


def _quoted(dotted: str) -> str:
    return ".".join('"' + re.sub('"', '""', part) + '"' for part in dotted.split("."))


def _selected(columns: Mapping[str, _Column]) -> str:
    return _list(column.selected(_quoted(name)) for name, column in columns.items())


def _list(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
