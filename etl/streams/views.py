"""Aggregates of correlations in Postgres: one table each, updated in the transaction that closes a batch.

    correlation.NAME    the query's columns; an average is generated from its sum and count (NAME__sum, NAME__count)

Sums of integers and decimals are `numeric`, which cannot overflow. NULL group keys form one group.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from psycopg2 import sql

from etl.adapters import postgres
from etl.adapters.ledger import Writer
from etl.adapters.mart import COMBINE
from etl.contract.words.types import postgres_type, stored_type
from etl.correlate.query.output import Aggregation, Grouping
from etl.errors import TerminalError
from etl.streams.ledger import StreamLedger

SCHEMA = "correlation"
_ALL = "everything"  # the key of the only group of a query without GROUP BY
Column = tuple[str, str, str]  # name, type, function that combines two values


def prepare(dsn: str, name: str, grouping: Grouping) -> None:
    """Create the table of a correlation if it does not exist."""
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute("select to_regclass(%s) is not null", [f"{SCHEMA}.{name}"])
        (exists,) = cursor.fetchone() or (False,)
        if not exists:
            cursor.execute(_create(name, grouping))
            connection.commit()
        elif _columns(cursor, name) != _wanted(grouping):
            raise ViewTaken(name)


class ViewTaken(TerminalError):
    """A table of aggregates exists with columns that differ from the correlation's."""

    exit_code = 78

    def __init__(self, correlation: str) -> None:
        super().__init__(correlation)
        self.correlation = correlation

    def __str__(self) -> str:
        return (
            f"table {SCHEMA}.{self.correlation} exists and has other columns than the correlation returns now; "
            "give the correlation another name, or drop the table"
        )


def _columns(cursor: postgres.Cursor, name: str) -> set[str]:
    cursor.execute(
        "select column_name from information_schema.columns where table_schema = %s and table_name = %s",
        (SCHEMA, name),
    )
    return {column for (column,) in cursor.fetchall()}


def _wanted(grouping: Grouping) -> set[str]:
    kept = {column for one in grouping.aggregates for column, _, _ in _parts(one)}
    return kept | set(grouping.order) | ({key for key, _ in grouping.keys} or {_ALL})


def _create(name: str, grouping: Grouping) -> sql.Composed:
    keys = {key: postgres_type(stored_type(one.type)) for key, one in grouping.keys} or {_ALL: "smallint"}
    columns = [sql.SQL("{} {}").format(sql.Identifier(key), sql.SQL(kind)) for key, kind in keys.items()]
    for one in grouping.aggregates:
        columns += [sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(kind)) for column, kind, _ in _parts(one)]
        if one.function == "avg":
            columns.append(_average(one))
    unique = sql.SQL("unique nulls not distinct ({})").format(sql.SQL(", ").join(map(sql.Identifier, keys)))
    return sql.SQL("create table {} ({})").format(_table(name), sql.SQL(", ").join([*columns, unique]))


def _parts(one: Aggregation) -> list[Column]:
    """The columns that store an aggregate."""
    if one.function == "count":
        return [(one.name, "bigint", "count")]
    assert one.argument is not None, "only count(*) has no argument"
    kind = one.argument.type
    if one.function in ("min", "max"):
        return [(one.name, postgres_type(stored_type(kind)), one.function)]
    total = "double precision" if pa.types.is_floating(kind) else f"numeric(38, {_scale(kind)})"
    if one.function == "sum":
        return [(one.name, total, "sum")]
    return [(f"{one.name}__sum", total, "sum"), (f"{one.name}__count", "bigint", "count")]


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


def _average(one: Aggregation) -> sql.Composed:
    assert one.argument is not None, "avg has an argument"
    kind = one.argument.type
    shown = f"numeric(38, {_scale(kind) + 4})" if pa.types.is_decimal(kind) else "double precision"
    division = sql.SQL("{total}::{shown} / nullif({count}, 0)").format(
        total=sql.Identifier(f"{one.name}__sum"), count=sql.Identifier(f"{one.name}__count"), shown=sql.SQL(shown)
    )
    return sql.SQL("{} {} generated always as ({}) stored").format(sql.Identifier(one.name), sql.SQL(shown), division)


def rows(grouping: Grouping, view: pa.Table) -> pa.Table:
    """A view's rows in the columns of its table, with everything for merging them: files outlive declarations."""
    columns = {key: view[f"key_{number}"] for number, (key, _) in enumerate(grouping.keys)} or {_ALL: view[_ALL]}
    for number, one in enumerate(grouping.aggregates):
        suffixes = ("sum", "count") if one.function == "avg" else (one.function,)
        parts = [view[f"{number}_{suffix}"] for suffix in suffixes]
        columns |= dict(zip((name for name, _, _ in _parts(one)), parts, strict=True))
    keys = [key for key, _ in grouping.keys] or [_ALL]
    functions = {name: function for one in grouping.aggregates for name, _, function in _parts(one)}
    return pa.table(columns).replace_schema_metadata({"keys": json.dumps(keys), "functions": json.dumps(functions)})


def load(
    dsn: str, writer: Writer, batch: int, loaded_at: datetime, groups: Mapping[str, pa.Table], tables: Sequence[str]
) -> bool:
    """Make the batch visible; False when an earlier try had done so already."""
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        ledger = StreamLedger(connection)
        ledger.book.fence(writer.epoch)
        if ledger.get(batch).state == "loaded":
            return False
        for name, part in groups.items():
            _add_up(cursor, name, part)
        ledger.load(batch, loaded_at, tables)
        connection.commit()
    return True


def _table(name: str) -> sql.Identifier:
    return sql.Identifier(SCHEMA, name)


def _add_up(cursor: postgres.Cursor, name: str, part: pa.Table) -> None:
    """Upsert the groups that a batch changed, by one statement."""
    keys, functions = (json.loads(part.schema.metadata[what]) for what in (b"keys", b"functions"))
    stage = f"batch_{name}"
    cursor.execute(
        sql.SQL("create temporary table {} (like {}) on commit drop").format(sql.Identifier(stage), _table(name))
    )
    postgres.copy_in(cursor.connection, stage, part)
    columns = sql.SQL(", ").join(map(sql.Identifier, part.column_names))
    sets = [
        COMBINE[function].format(
            column=sql.Identifier(column), old=sql.Identifier(name, column), new=sql.Identifier("excluded", column)
        )
        for column, function in functions.items()
    ]
    cursor.execute(
        sql.SQL("insert into {} ({}) select {} from {} on conflict ({}) do update set {}").format(
            _table(name), columns, columns, sql.Identifier(stage),
            sql.SQL(", ").join(map(sql.Identifier, keys)), sql.SQL(", ").join(sets),
        )
    )  # fmt: skip
