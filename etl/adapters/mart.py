"""The Postgres mart of a pipeline: tables as declared, and one transaction that makes a batch visible.

    one transaction: COPY rows ─ fence ─ add up aggregates ─ ledger row, totals

Rows may be copied before the audit has passed: they are invisible until the commit. It commits only under the epoch of
the writer that began it, and only if the batch is not loaded yet. Claims make keys unique; the primary key enforces it
once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from psycopg2 import errors, sql

from etl.adapters import postgres
from etl.adapters.ledger import Ledger, Writer
from etl.contract.model import MartTable
from etl.contract.words.types import postgres_type
from etl.errors import TerminalError

SCHEMA = "mart"
_FOUND = ("batch", "landed_at", "loaded_at")
LOADED_AT = "loaded_at"
COMBINE = {
    "count": sql.SQL("{column} = coalesce({old}, 0) + coalesce({new}, 0)"),
    "sum": sql.SQL("{column} = case when {old} is null then {new} else {old} + coalesce({new}, 0) end"),
    "min": sql.SQL("{column} = least({old}, {new})"),
    "max": sql.SQL("{column} = greatest({old}, {new})"),
}


@dataclass(frozen=True, slots=True)
class Groups:
    """The rows that a batch adds to an aggregate, one per group, and how each column merges with existing groups."""

    table: MartTable
    rows: pa.Table
    functions: Mapping[str, str]
    counter: str | None = None  # the column that counts rows: a group with zero rows is deleted


@dataclass(frozen=True, slots=True)
class Replaced:
    """Rows that replace earlier ones of a table: files that tasks wrote for COPY, and all of their keys."""

    table: str
    paths: Sequence[Path]
    keys: pa.Table


class MartTaken(TerminalError):
    """A table of the mart exists and is not what the pipeline declares."""

    def __init__(self, pipeline: str, table: str, what: str) -> None:
        super().__init__(pipeline, table, what)
        self.pipeline, self.table, self.what = pipeline, table, what

    def __str__(self) -> str:
        return (
            f"table {SCHEMA}.{self.table} exists and {self.what}; "
            f"rename [mart.{self.table}] in the file of pipeline {self.pipeline}, or drop the table if it is not needed"
        )


def find(dsn: str, table: str, key: Mapping[str, object]) -> dict[str, Any] | None:
    """The load time of one event's row in a table of rows; None when it is not there."""
    columns = sql.SQL(", ").join(map(sql.Identifier, _FOUND))
    where = sql.SQL(" and ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in key)
    query = sql.SQL("select {} from {} where {}").format(columns, _name(table), where)
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(query, list(key.values()))
        row = cursor.fetchone()
        return None if row is None else dict(zip(_FOUND, row, strict=True))


def prepare(dsn: str, pipeline: str, tables: Mapping[str, tuple[MartTable, pa.Schema, Sequence[str]]]) -> None:
    """Create declared tables; add new columns. `tables`: table, types, key columns, by name."""
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        for name, (table, schema, key) in tables.items():
            _refuse_foreign(cursor, pipeline, name)
            have = _columns(cursor, name)
            if not have:
                cursor.execute(_create(table, schema, key))
                comment = sql.SQL("comment on table {} is {}")
                cursor.execute(comment.format(_name(name), sql.Literal(_owner(pipeline))))
                continue
            for field in schema:
                if field.name not in have:
                    add = sql.SQL("alter table {} add column {}")
                    cursor.execute(add.format(_name(name), _column(field.with_nullable(True))))  # old rows have none
                elif field.nullable:
                    allow = sql.SQL("alter table {} alter column {} drop not null")
                    cursor.execute(allow.format(_name(name), sql.Identifier(field.name)))
        connection.commit()


def _owner(pipeline: str) -> str:
    return f"loaded by pipeline {pipeline}"


def _refuse_foreign(cursor: postgres.Cursor, pipeline: str, name: str) -> None:
    cursor.execute("select to_regclass(%s) is not null, obj_description(to_regclass(%s))", [f"{SCHEMA}.{name}"] * 2)
    exists, owner = cursor.fetchone() or (False, None)
    if exists and owner != _owner(pipeline):
        raise MartTaken(pipeline, name, f"is {owner}" if owner else "was not made by Frontstage")


def _columns(cursor: postgres.Cursor, name: str) -> set[str]:
    cursor.execute(
        "select column_name from information_schema.columns where table_schema = %s and table_name = %s",
        (SCHEMA, name),
    )
    return {column for (column,) in cursor.fetchall()}


def _create(table: MartTable, schema: pa.Schema, key: Sequence[str]) -> sql.Composed:
    columns = [_column(field) for field in schema]
    if table.is_aggregate:
        names = sql.SQL(", ").join(map(sql.Identifier, table.group_by))
        columns.append(sql.SQL("unique nulls not distinct ({})").format(names))
    else:
        if key and all(name in schema.names for name in key):
            columns.append(sql.SQL("primary key ({})").format(sql.SQL(", ").join(map(sql.Identifier, key))))
    return sql.SQL("create table {} ({})").format(_name(table.name), sql.SQL(", ").join(columns))


def _column(field: pa.Field) -> sql.Composed:
    kind = postgres_type(field.type) + ("" if field.nullable else " not null")
    if field.name == LOADED_AT:
        kind += " default now()"  # start of the transaction that makes the batch visible
    return sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(kind))


def _name(table: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, table)


class SumTooLarge(TerminalError):
    """A batch makes a sum of the mart larger than its column can hold."""

    def __init__(self, batch: int, table: str, columns: Sequence[str]) -> None:
        super().__init__(batch, table, columns)
        self.batch, self.table, self.columns = batch, table, columns

    def __str__(self) -> str:
        wider = ", ".join(f"alter column {name} type numeric" for name in self.columns)
        return (
            f"batch {self.batch} brings sums that do not fit {SCHEMA}.{self.table}, so nothing was loaded; if they are "
            f"right, widen the table and run again: alter table {SCHEMA}.{self.table} {wider}"
        )


@contextmanager
def loading(dsn: str, batch: int, session: str = "frontstage") -> Iterator[Loading]:
    """Begin to load a batch; rolled back unless finished. `session`: its name on the server."""
    with postgres.connect(dsn, name=session) as connection:
        yield Loading(connection, batch)


@dataclass(frozen=True, slots=True)
class Loading:
    """The transaction that makes a batch visible, while it is open."""

    connection: postgres.Connection = field(repr=False)
    batch: int

    def copy(self, rows: Mapping[str, Sequence[Path]], expected: Mapping[str, int]) -> None:
        """Copy rows that tasks wrote. `rows`: files by table; `expected`: how many rows they have."""
        for table, paths in rows.items():
            copied = sum(_copy(self.connection, table, path, self.batch) for path in paths)
            if copied != expected[table]:
                raise TerminalError(
                    f"batch {self.batch}: {copied} rows were copied into {SCHEMA}.{table}, "
                    f"{expected[table]} were decided"
                )

    def cancel(self) -> None:
        """Cancel a `copy` that runs in another thread."""
        self.connection.cancel()

    def finish(
        self,
        writer: Writer,
        loaded_at: datetime,
        aggregates: Iterable[Groups],
        freshness: Mapping[str, float] | None,
        published: Sequence[str],
        replaced: Iterable[Replaced] = (),
    ) -> bool:
        """Make the batch visible; False, without effect, when an earlier try has done so already."""
        ledger = Ledger(self.connection, writer.ledger.pipeline)
        ledger.fence(writer.epoch)
        if ledger.get(self.batch).state == "loaded":
            self.connection.rollback()
            return False
        with self.connection.cursor() as cursor:
            for one in replaced:
                _replace(cursor, one, self.batch)
            for groups in aggregates:
                _add_up(cursor, groups, self.batch)
        ledger.load(self.batch, loaded_at, freshness, published)
        self.connection.commit()
        return True


def _replace(cursor: postgres.Cursor, rows: Replaced, batch: int) -> None:
    """Replace rows with the same keys."""
    stage, name = f"replaced_{rows.table}", _name(rows.table)
    columns = list(map(sql.Identifier, rows.keys.column_names))
    as_there = sql.SQL("create temporary table {} on commit drop as select {} from {} limit 0")
    cursor.execute(as_there.format(sql.Identifier(stage), sql.SQL(", ").join(columns), name))
    postgres.copy_in(cursor.connection, stage, rows.keys)
    same = sql.SQL(" and ").join(sql.SQL("old.{0} = new.{0}").format(column) for column in columns)
    cursor.execute(sql.SQL("delete from {} as old using {} as new where {}").format(name, sql.Identifier(stage), same))
    gone, copied = cursor.rowcount, sum(_copy(cursor.connection, rows.table, path, batch) for path in rows.paths)
    if gone != copied:
        raise TerminalError(f"batch {batch} corrects {copied} rows of {SCHEMA}.{rows.table}, which has {gone} of them")


def _copy(connection: postgres.Connection, table: str, path: Path, batch: int) -> int:
    try:
        with path.open("rb") as source:
            return postgres.copy_file(connection, f"{SCHEMA}.{table}", source)
    except errors.UniqueViolation as error:
        raise TerminalError(
            f"batch {batch} brings a key that {SCHEMA}.{table} has already ({str(error).splitlines()[0]}); "
            "nothing was loaded, run `frontstage audit`"
        ) from None


def _add_up(cursor: postgres.Cursor, groups: Groups, batch: int) -> None:
    """Upsert the groups of a batch through a temporary table: one statement for any number of groups.

    The temporary table has the types of the batch's rows, and Postgres refuses values that do not fit the mart's.
    """
    table, rows = groups.table, groups.rows
    name, stage = _name(table.name), sql.Identifier(f"batch_{table.name}")
    types = sql.SQL(", ").join(_column(field.with_nullable(True)) for field in rows.schema)
    cursor.execute(sql.SQL("create temporary table {} ({}) on commit drop").format(stage, types))
    postgres.copy_in(cursor.connection, f"batch_{table.name}", rows)
    columns = list(map(sql.Identifier, rows.column_names))
    sets = [
        COMBINE[function].format(
            column=sql.Identifier(column),
            old=sql.Identifier(table.name, column),
            new=sql.Identifier("excluded", column),
        )
        for column, function in groups.functions.items()
    ]
    upsert = sql.SQL("insert into {} ({}) select {} from {} on conflict ({}) do update set {}").format(
        name,
        sql.SQL(", ").join(columns),
        sql.SQL(", ").join(columns),
        stage,
        sql.SQL(", ").join(map(sql.Identifier, table.group_by)),
        sql.SQL(", ").join(sets),
    )
    try:
        cursor.execute(upsert)
    except errors.NumericValueOutOfRange:
        sums = [name for name, function in groups.functions.items() if function == "sum"]
        raise SumTooLarge(batch, table.name, tuple(sums)) from None
    if groups.counter is not None:
        cursor.execute(sql.SQL("delete from {} where {} = 0").format(name, sql.Identifier(groups.counter)))


def read_parts(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows of Arrow files, a file at a time."""
    for path in paths:
        with pa.memory_map(str(path)) as source:
            yield pa.ipc.open_file(source).read_all()
