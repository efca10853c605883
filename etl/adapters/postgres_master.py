"""A master table in Postgres as a source of master pages: all of it at one moment, and what changed since.

    snapshot   one read-only transaction: its position, then COPY … ORDER BY key, as Arrow, batch by batch
    changes    the change log's keys that the last snapshot did not show ─► their rows as they are now
               a key without a row was deleted

The position is the snapshot itself (`xmin:xmax:running`), not a number: transactions commit in another order than they
draw numbers. Whatever a snapshot did not show, because it was still running or had not begun, the next one reads,
once. Where triggers are not allowed, `updated_at` is followed instead, with an overlap; deletions then wait for the
next publishing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal

import adbc_driver_manager
import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
import pyarrow.compute as pc

from etl.adapters import postgres
from etl.adapters.pages.errors import RepublishNeeded
from etl.adapters.pages.manifest import Position
from etl.adapters.pages.source import Changes, Snapshot
from etl.errors import MasterUnavailable, MissingPart, PostgresUnavailable

Follow = Literal["change_log", "updated_at"]

_READ = "set transaction isolation level repeatable read read only"
_PRESENT = "__present"
_UPDATED_AT = "updated_at"


class PostgresMaster:
    """One master table. `columns` are those to publish besides the key; all of them unless told."""

    def __init__(
        self,
        dsn: str,
        table: str,
        key: Sequence[str],
        columns: Sequence[str] | None = None,
        *,
        follow: Follow = "change_log",
        overlap: timedelta = timedelta(minutes=10),
    ) -> None:
        self._dsn, self._table, self._key, self._columns = dsn, table, tuple(key), columns
        self._follow, self._overlap = follow, overlap

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """All rows in key order, inside one transaction that lasts as long as the block."""
        with self._reading() as ask:
            position = self._position(ask)
            columns = self._described(ask)
            order = ", ".join(_ordered(columns[name], name) for name in self._key)
            text = f"select {_list(columns.values())} from {_quoted(self._table)} order by {order}"  # noqa: S608
            reader = ask(text)
            schema = pa.schema([_plain_field(field) for field in reader.schema])
            yield Snapshot(schema, self._key, self._batches(reader), position, presorted=True)

    def changes(self, since: Position) -> Changes:
        """What happened after a position. Raises `RepublishNeeded` when that can no longer be told."""
        with self._reading() as ask:
            now = self._position(ask)
            self._check_same_history(since, now)
            columns = self._described(ask)
            if self._follow == "updated_at":
                return self._newer(ask, columns, since, now)
            self._check_log(ask, since)
            return self._touched(ask, columns, since, now)

    # --- by change log

    def _touched(self, ask: Ask, columns: Mapping[str, str], since: Position, now: Position) -> Changes:
        keys = {name: f"k{number}" for number, name in enumerate(self._key)}
        types = self._key_types(ask)
        cast = ", ".join(f"(key->>{i})::{types[name]} as {keys[name]}" for i, name in enumerate(self._key))
        match = " and ".join(f"m.{_quoted(name)} = t.{keys[name]}" for name in self._key)
        picked = [f"t.{keys[name]} as {_quoted(name)}" for name in self._key]
        picked += [f"m.{text}" for name, text in columns.items() if name not in self._key]
        text = (
            f"with touched as (select distinct {cast} from ({postgres.statement('master_changes')}) c "  # noqa: S608
            f"where key is not null) select {_list(picked)}, m.{_quoted(self._key[0])} is not null as {_PRESENT} "
            f"from touched t left join {_quoted(self._table)} m on {match}"
        )
        rows = _table(ask(text, (self._table, since["snapshot"])))
        present = rows.column(_PRESENT)
        upserts = rows.filter(present).drop_columns([_PRESENT])
        return Changes(upserts, self._keys_of(rows.filter(pc.invert(present))), now)

    def _check_log(self, ask: Ask, since: Position) -> None:
        given = (self._table, since["snapshot"])
        (state,) = ask(postgres.statement("master_log_state"), given).read_all().to_pylist()
        if state["ahead"]:
            raise RepublishNeeded(self._table, "the server went back in time, as after restoring a backup")
        if state["pruned"]:
            raise RepublishNeeded(self._table, "entries of its change log were pruned before they were read")
        whole = ask(f"select op from ({postgres.statement('master_changes')}) c where key is null", given)  # noqa: S608
        if whole.read_all().num_rows:
            raise RepublishNeeded(self._table, "it was truncated or changed in bulk")

    # --- by updated_at

    def _newer(self, ask: Ask, columns: Mapping[str, str], since: Position, now: Position) -> Changes:
        start = datetime.fromisoformat(since["quiet_since"]) - self._overlap
        text = (
            f"select {_list(columns.values())} from {_quoted(self._table)} "  # noqa: S608
            f"where {_quoted(_UPDATED_AT)} >= $1::timestamptz"
        )
        rows = _table(ask(text, (start.isoformat(),)))
        return Changes(rows, self._keys_of(rows.slice(0, 0)), now)

    # --- both

    def _position(self, ask: Ask) -> dict[str, Any]:
        (row,) = ask(postgres.statement("master_position")).read_all().to_pylist()
        position = {**row, "quiet_since": row["quiet_since"].isoformat(), "follow": self._follow, "feed": ""}
        if self._follow == "change_log":
            (fed,) = ask(postgres.statement("master_log_feed"), (self._table,)).read_all().to_pylist()
            position["feed"] = fed["feed"]
        return position

    def _check_same_history(self, since: Position, now: Position) -> None:
        reasons = {
            "server": "it is on another server now",
            "timeline": "its server was restored or replaced",
            "database": "its database was made anew",
            "follow": "its changes are followed in another way now",
            "feed": "its change log was not fed all the time",
        }
        for part, reason in reasons.items():
            if since.get(part) != now[part]:
                raise RepublishNeeded(self._table, reason)
        if self._follow == "change_log" and not now["feed"]:
            raise RepublishNeeded(
                self._table, "its change log is not fed; call master.keep_change_log for it"
            )

    def _described(self, ask: Ask) -> dict[str, str]:
        """Every column and how it is selected: types Arrow has no flat form for travel as text."""
        wanted = "*" if self._columns is None else _list(map(_quoted, [*self._key, *self._columns]))
        schema = ask(f"select {wanted} from {_quoted(self._table)} limit 0").schema  # noqa: S608
        return {field.name: _selected(field) for field in schema}

    def _key_types(self, ask: Ask) -> dict[str, str]:
        text = (
            "select attname::text as name, format_type(atttypid, atttypmod) as type from pg_attribute "
            "where attrelid = to_regclass($1) and attnum > 0 and not attisdropped"
        )
        rows = ask(text, (self._table,)).read_all().to_pylist()
        return {row["name"]: row["type"] for row in rows}

    def _keys_of(self, rows: pa.Table) -> pa.Array:
        parts = [rows.column(name).combine_chunks() for name in self._key]
        return parts[0] if len(parts) == 1 else pa.StructArray.from_arrays(parts, names=list(self._key))

    def _batches(self, reader: Any) -> Iterator[pa.RecordBatch]:
        try:
            for batch in reader:
                yield _plain_batch(batch)
        except (pa.ArrowException, OSError) as error:
            raise MasterUnavailable(self._table) from error

    @contextmanager
    def _reading(self) -> Iterator[Ask]:
        """One repeatable, read-only transaction: everything asked inside it sees the same moment."""
        try:
            with adbc.connect(self._dsn) as connection, connection.cursor() as setup:
                setup.execute(_READ)
                yield partial(_ask, connection)
        except adbc_driver_manager.ProgrammingError as error:
            raise MissingPart(
                f"master table {self._table} cannot be read ({_first_line(error)})", _REMEDY
            ) from None
        except adbc_driver_manager.Error as error:
            raise PostgresUnavailable(postgres.place(self._dsn), _first_line(error)) from None


Ask = Callable[..., Any]
"""A statement and its values → a reader of Arrow batches."""

_REMEDY = "create it, grant SELECT on it, or correct its name in warehouse/orders.toml"


def prune_change_log(dsn: str, table: str, position: Position) -> int:
    """Forget log entries that a store at `position`, and everybody after it, has read. Gives how many."""
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(
            postgres.statement("master_log_prune"), {"table": table, "snapshot": position["snapshot"]}
        )
        connection.commit()
        return cursor.rowcount


def _ask(connection: Any, text: str, values: tuple[Any, ...] | None = None) -> Any:
    cursor = connection.cursor()
    cursor.execute(text, parameters=values)
    return cursor.fetch_record_batch()


def _table(reader: Any) -> pa.Table:
    rows = reader.read_all()
    schema = pa.schema([_plain_field(field) for field in rows.schema])
    return pa.Table.from_batches(map(_plain_batch, rows.to_batches()), schema)


def _plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    fields = [_plain_field(field) for field in batch.schema]
    columns = [
        (column.storage if isinstance(column.type, pa.BaseExtensionType) else column).cast(field.type)
        for column, field in zip(batch.columns, fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _plain_field(field: pa.Field) -> pa.Field:
    """Numbers with a fixed scale become decimals; those without one stay text, exact to the last digit."""
    if _is_numeric(field):
        typmod = int((field.metadata or {}).get(b"POSTGRESQL:typmod", b"-1"))
        fixed = typmod >= 4
        return pa.field(field.name, _decimal(typmod - 4) if fixed else pa.string())
    return pa.field(field.name, field.type)


def _decimal(packed: int) -> pa.DataType:
    return pa.decimal128(packed >> 16 & 0xFFFF, packed & 0x7FF)


def _is_numeric(field: pa.Field) -> bool:
    return bool((field.metadata or {}).get(b"POSTGRESQL:type") == b"numeric")


def _selected(field: pa.Field) -> str:
    name = _quoted(field.name)
    if isinstance(field.type, pa.BaseExtensionType) and not _is_numeric(field):
        return f"{name}::text as {name}"
    return name


def _ordered(selected: str, name: str) -> str:
    """Text by its bytes, as pages are sorted."""
    return selected if selected != _quoted(name) else name


def _quoted(dotted: str) -> str:
    return ".".join('"' + re.sub('"', '""', part) + '"' for part in dotted.split("."))


def _list(parts: Any) -> str:
    return ", ".join(parts)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
