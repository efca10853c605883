"""Arrow tables over COPY: no Python object per row, in either direction."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.csv
from psycopg2 import sql

from etl.adapters.postgres.connection import Connection, identifier

BINARY: Final = b"PGCOPY\n\xff\r\n\0"
"""The signature of COPY's binary format."""


def arrow_types(connection: Connection, table: str, columns: Sequence[str]) -> pa.Schema:
    """The Arrow types of a table's columns."""
    query = sql.SQL("select {} from {} limit 0").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), identifier(table)
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        assert cursor.description is not None, "a select describes its columns"
        return pa.schema([(column.name, _arrow_type(column)) for column in cursor.description])


def copy_out(connection: Connection, query: sql.Composable, schema: pa.Schema) -> pa.Table:
    """The rows of a query as Arrow, through COPY: no Python object per row."""
    buffer = io.BytesIO()
    with connection.cursor() as cursor:
        cursor.copy_expert(sql.SQL("copy ({}) to stdout (format csv)").format(query), buffer)
    if buffer.tell() == 0:
        return schema.empty_table()
    buffer.seek(0)
    return pyarrow.csv.read_csv(
        buffer,
        read_options=pyarrow.csv.ReadOptions(
            column_names=schema.names, block_size=max(1 << 20, buffer.getbuffer().nbytes)
        ),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=_readable(schema),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
            timestamp_parsers=["%Y-%m-%d %H:%M:%S.%f%z", "%Y-%m-%d %H:%M:%S%z", pyarrow.csv.ISO8601],
        ),
    ).cast(schema)


def write_text(rows: pa.Table, sink: BinaryIO) -> None:
    """Write rows for `copy_file` as text, which Postgres converts to the column's type."""
    pyarrow.csv.write_csv(_as_text(rows), sink)


def copy_file(connection: Connection, table: str, source: BinaryIO) -> int:
    """Append rows; returns how many. The first line names their columns, a subset of the table's. The caller commits.

    `source`: text as `write_text` writes it, or values as `binary.write_values` does.
    """
    (columns,) = csv.reader([source.readline().decode()])
    body = source.tell()
    form = "binary" if source.read(len(BINARY)) == BINARY else "csv"
    source.seek(body)
    target = sql.SQL("copy {} ({}) from stdin (format {})").format(
        identifier(table), sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(form)
    )
    with connection.cursor() as cursor:
        cursor.copy_expert(target, source, 1 << 20)
        return int(cursor.rowcount)


def copy_in(connection: Connection, table: str, rows: pa.Table) -> int:
    """Append Arrow rows to a table through COPY; the caller commits."""
    buffer = io.BytesIO()
    write_text(rows, buffer)
    buffer.seek(0)
    copy_file(connection, table, buffer)
    return int(rows.num_rows)


def _as_text(rows: pa.Table) -> pa.Table:
    """Convert decimals to text, which Arrow's CSV writer does not support."""
    fields = [pa.field(field.name, pa.string()) if pa.types.is_decimal(field.type) else field for field in rows.schema]
    return rows.cast(pa.schema(fields))


def _readable(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema}


def _arrow_type(column: Any) -> pa.DataType:
    simple = {
        16: pa.bool_(), 20: pa.int64(), 21: pa.int16(), 23: pa.int32(), 25: pa.string(), 700: pa.float32(),
        701: pa.float64(), 1043: pa.string(), 1082: pa.date32(), 1184: pa.timestamp("us", "UTC"),
    }  # fmt: skip
    if column.type_code == 1700:
        return pa.decimal128(column.precision or 38, column.scale or 0)
    return simple.get(column.type_code, pa.string())
