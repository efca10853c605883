"""The Postgres mart of a pipeline: tables as declared, and one transaction that makes a batch visible.

    one transaction: fence ─ COPY rows ─ add up aggregates ─ ledger row, totals

It commits only under the epoch of the writer that began it, and only if the batch is not loaded yet; keys are unique
because the batch's claims made them so, and the primary key says it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from psycopg2 import errors, sql

from etl.adapters import postgres
from etl.adapters.ledger import Ledger, Writer
from etl.contract.model import MartTable
from etl.contract.types import postgres_type
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
    """When the row of one event came into a table with rows; None when it is not there."""
    columns = sql.SQL(", ").join(map(sql.Identifier, _FOUND))
    where = sql.SQL(" and ").join(sql.SQL("{} = %s").format(sql.Identifier(name)) for name in key)
    query = sql.SQL("select {} from {} where {}").format(columns, _name(table), where)
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(query, list(key.values()))
        row = cursor.fetchone()
        return None if row is None else dict(zip(_FOUND, row, strict=True))


def prepare(dsn: str, pipeline: str, tables: Mapping[str, tuple[MartTable, pa.Schema, Sequence[str]]]) -> None:
    """Make the tables that are declared; add columns that are new. `tables`: table, types, key columns, by name."""
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
        kind += " default now()"  # the moment of the transaction that makes the batch visible
    return sql.SQL("{} {}").format(sql.Identifier(field.name), sql.SQL(kind))


def _name(table: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, table)


def load(
    dsn: str,
    writer: Writer,
    batch: int,
    loaded_at: datetime,
    *,
    rows: Mapping[str, Sequence[Path]],
    aggregates: Mapping[str, tuple[MartTable, pa.Table, Mapping[str, str]]],
    expected: Mapping[str, int],
    freshness: Mapping[str, float] | None,
    published: Sequence[str],
) -> bool:
    """Make the batch visible; False when an earlier try had done so already.

    `rows`: by table, files that tasks wrote for COPY; `expected`: how many rows they have; `aggregates`: table, rows,
    function by column.
    """
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        ledger = Ledger(connection, writer.ledger.pipeline)
        ledger.fence(writer.epoch)
        if ledger.get(batch).state == "loaded":
            return False
        for table, paths in rows.items():
            copied = sum(_copy(connection, table, path, batch) for path in paths)
            if copied != expected[table]:
                raise TerminalError(
                    f"batch {batch}: {copied} rows were copied into {SCHEMA}.{table}, {expected[table]} were decided"
                )
        for declared, part, functions in aggregates.values():
            _add_up(cursor, declared, part, functions)
        ledger.load(batch, loaded_at, freshness, published)
        connection.commit()
    return True


def _copy(connection: postgres.Connection, table: str, path: Path, batch: int) -> int:
    try:
        with path.open("rb") as source:
            return postgres.copy_file(connection, f"{SCHEMA}.{table}", source)
    except errors.UniqueViolation as error:
        raise TerminalError(
            f"batch {batch} brings a key that {SCHEMA}.{table} has already ({str(error).splitlines()[0]}); "
            "nothing was loaded, run `frontstage audit`"
        ) from None


def _add_up(cursor: postgres.Cursor, table: MartTable, rows: pa.Table, functions: Mapping[str, str]) -> None:
    """Upsert the groups of a batch: through a temporary table, so that it is one statement however many there are."""
    name, stage = _name(table.name), sql.Identifier(f"batch_{table.name}")
    cursor.execute(sql.SQL("create temporary table {} (like {}) on commit drop").format(stage, name))
    postgres.copy_in(cursor.connection, f"batch_{table.name}", rows)
    columns = list(map(sql.Identifier, rows.column_names))
    sets = [
        COMBINE[function].format(
            column=sql.Identifier(column),
            old=sql.Identifier(table.name, column),
            new=sql.Identifier("excluded", column),
        )
        for column, function in functions.items()
    ]
    cursor.execute(
        sql.SQL("insert into {} ({}) select {} from {} on conflict ({}) do update set {}").format(
            name,
            sql.SQL(", ").join(columns),
            sql.SQL(", ").join(columns),
            stage,
            sql.SQL(", ").join(map(sql.Identifier, table.group_by)),
            sql.SQL(", ").join(sets),
        )
    )


def read_parts(paths: Sequence[Path]) -> Iterator[pa.Table]:
    """The rows of Arrow files, a file at a time."""
    for path in paths:
        with pa.memory_map(str(path)) as source:
            yield pa.ipc.open_file(source).read_all()
