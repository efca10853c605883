"""A master table in Postgres's catalog: its columns, its key, and usable indexes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg2
import pyarrow as pa
from psycopg2 import sql

from etl.adapters import postgres
from etl.adapters.postgres import Connection
from etl.columnar.errors import KeyTypeUnsupported
from etl.enrich.errors import NullMasterKey
from etl.masters.postgres.copy import unreadable
from etl.masters.postgres.key_sql import KeyColumn, KeySql
from etl.masters.rows.shape import Shape

_COLUMNS = """
select a.attname::text as name, a.attnum as number, a.atttypid::int as type_id, a.attnotnull as whole,
       format_type(a.atttypid, a.atttypmod) as type, a.attcollation::int as collation,
       coalesce(c.collisdeterministic, true) as exact,
       coalesce(case c.collprovider
           when 'd' then to_jsonb(d) ->> 'datlocprovider' = 'b' or d.datcollate in ('C', 'POSIX')
                         and coalesce(to_jsonb(d) ->> 'datlocprovider', 'c') = 'c'
           when 'c' then c.collcollate in ('C', 'POSIX')
           else c.collprovider = 'b'
       end, true) as by_bytes
from pg_attribute a
join pg_database d on d.datname = current_database()
left join pg_collation c on c.oid = a.attcollation
where a.attrelid = to_regclass(%s) and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""
_INDEXES = """
select i.indisunique as is_unique, m.amname = 'btree' as sorted, i.indkey::text as columns,
       i.indcollation::text as collations, i.indoption::text as options, i.indnkeyatts as width
from pg_index i join pg_class x on x.oid = i.indexrelid join pg_am m on m.oid = x.relam
where i.indrelid = to_regclass(%s) and i.indisvalid and i.indpred is null and i.indexprs is null
"""
_INTEGERS, _TEXTS = (20, 21, 23), (25, 1043)
_C = 950


class _Column(NamedTuple):
    name: str
    number: int
    type_id: int
    whole: bool
    type: str
    collation: int
    exact: bool
    by_bytes: bool


class _Index(NamedTuple):
    is_unique: bool
    sorted: bool
    columns: str
    collations: str
    options: str
    width: int


@dataclass(frozen=True, slots=True)
class Described:
    """A master table's description for readers."""

    shape: Shape
    key: KeySql
    unique: bool  # an index guarantees that no key comes twice
    indexed: bool  # an index has the keys in page order


def describe(connection: Connection, table: str, key: Sequence[str], columns: Sequence[str] | None) -> Described:
    """Describe a table. Raises for keys that cannot be joined, and for rows without a key."""
    try:
        return _described(connection, table, tuple(key), columns)
    except psycopg2.ProgrammingError as error:
        raise unreadable(table, str(error).strip().splitlines()[0]) from None


def table_schema(connection: Connection, table: str) -> pa.Schema:
    """All columns of a table with their join types; not nullable where the table says so."""
    known = [_Column(*row) for row in _asked(connection, _COLUMNS, table)]
    if not known:
        raise unreadable(table, "it does not exist")
    try:
        types = _schema(connection, table, known)
    except psycopg2.ProgrammingError as error:
        raise unreadable(table, str(error).strip().splitlines()[0]) from None
    return pa.schema([types.field(one.name).with_nullable(not one.whole) for one in known])


def primary_key(connection: Connection, table: str) -> tuple[str, ...]:
    """The columns of a table's primary key, or of its narrowest unique index over columns that are never NULL."""
    known = {one.number: one for one in (_Column(*row) for row in _asked(connection, _COLUMNS, table))}
    unique = [
        _numbers(index.columns)[: index.width]
        for index in (_Index(*row) for row in _asked(connection, _INDEXES, table))
        if index.is_unique
    ]
    whole = [numbers for numbers in unique if all(number in known and known[number].whole for number in numbers)]
    return tuple(known[number].name for number in min(whole, key=len, default=[]))


def _described(connection: Connection, table: str, key: tuple[str, ...], columns: Sequence[str] | None) -> Described:
    known = {column.name: column for column in (_Column(*row) for row in _asked(connection, _COLUMNS, table))}
    wanted = [*key, *(columns if columns is not None else [name for name in known if name not in key])]
    for name in wanted:
        if name not in known:
            raise unreadable(table, f"column {name} does not exist" if known else "it does not exist")
    parts = [_key_column(known[name]) for name in key]
    key_sql = KeySql(table, tuple(parts))
    if not all(known[name].whole for name in key):
        _refuse_null_keys(connection, key_sql)
    indexes = [_Index(*row) for row in _asked(connection, _INDEXES, table)]
    shape = Shape.of(table, _schema(connection, table, [known[name] for name in wanted]), key)
    unique = any(_is_unique(index, {known[name].number for name in key}) for index in indexes)
    indexed = any(_is_ordered(index, [known[name] for name in key], parts) for index in indexes)
    return Described(shape, key_sql, unique, indexed)


def _asked(connection: Connection, query: str, table: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, (postgres.identifier(table).as_string(connection),))
        return list(cursor.fetchall())


def _key_column(column: _Column) -> KeyColumn:
    if column.type_id not in (*_INTEGERS, *_TEXTS):
        raise KeyTypeUnsupported(column.type)
    if not column.exact:  # a case-insensitive collation: 'a' would equal 'A'
        raise KeyTypeUnsupported(f"{column.type} with a nondeterministic collation")
    return KeyColumn(column.name, column.type_id in _TEXTS, column.by_bytes)


def _schema(connection: Connection, table: str, columns: Sequence[_Column]) -> pa.Schema:
    """The same types as in published pages."""
    own = {column.name: _own_type(column.type) for column in columns}
    usual = postgres.arrow_types(connection, table, [name for name, known in own.items() if known is None])
    return pa.schema(
        [pa.field(name, usual.field(name).type if known is None else known) for name, known in own.items()]
    )


def _own_type(sql_type: str) -> pa.DataType | None:
    """Numerics without a scale, or too long for a decimal, become exact text; None: the default type."""
    if sql_type.startswith("timestamp") and sql_type.endswith("without time zone"):
        return pa.timestamp("us")
    precision = re.fullmatch(r"numeric(?:\((\d+),-?\d+\))?", sql_type)
    return pa.string() if precision and int(precision[1] or 1_000) > 38 else None


def _refuse_null_keys(connection: Connection, key: KeySql) -> None:
    query = sql.SQL("select count(*) from {} where {}").format(postgres.identifier(key.table), key.null())
    with connection.cursor() as cursor:
        cursor.execute(query)
        (nulls,) = cursor.fetchone() or (0,)
    if nulls:
        raise NullMasterKey(key.table, nulls)


def _is_unique(index: _Index, numbers: set[int]) -> bool:
    return index.is_unique and set(_numbers(index.columns)[: index.width]) <= numbers


def _is_ordered(index: _Index, columns: Sequence[_Column], parts: Sequence[KeyColumn]) -> bool:
    """Whether the index begins with the key's columns, in page order."""
    width = len(columns)
    compared = [column.collation if part.ordered_by_bytes else _C for column, part in zip(columns, parts, strict=True)]
    directions = {option & 1 for option in _numbers(index.options)[:width]}
    return (
        index.sorted
        and _numbers(index.columns)[:width] == [column.number for column in columns]
        and _numbers(index.collations)[:width] == compared
        and len(directions) == 1
    )


def _numbers(vector: str) -> list[int]:
    return [int(number) for number in vector.split()]
