"""The door to Postgres: connections, migrations, statements from `sql/`, and Arrow over COPY.

A DSN is a secret: it is passed by value, never printed. Errors name the place only.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions
import pyarrow as pa
import pyarrow.csv
from psycopg2 import sql

from etl.errors import PostgresUnavailable

Connection = psycopg2.extensions.connection
Cursor = psycopg2.extensions.cursor
_SQL = Path(__file__).resolve().parents[2] / "sql"
_MIGRATIONS = Path(__file__).resolve().parents[2] / "warehouse" / "migrations"
_UNREADABLE = "an unreadable DSN"
_MIGRATION_LOCK = 0x46_53_4D_49


@cache
def statement(name: str) -> str:
    """The text of `sql/<name>.sql`."""
    return (_SQL / f"{name}.sql").read_text()


def identifier(dotted: str) -> sql.Identifier:
    """`schema.table` as a quoted identifier."""
    return sql.Identifier(*dotted.split("."))


@contextmanager
def connect(dsn: str, *, autocommit: bool = False) -> Iterator[Connection]:
    """A connection that is closed at the end; what was not committed is rolled back."""
    try:
        connection = psycopg2.connect(dsn, connect_timeout=10, application_name="frontstage")
    except psycopg2.ProgrammingError:
        raise PostgresUnavailable(_UNREADABLE, "its text is malformed") from None
    except psycopg2.OperationalError as error:
        raise PostgresUnavailable(place(dsn), _reason(error, dsn)) from None
    try:
        connection.autocommit = autocommit
        yield connection
    finally:
        connection.close()


def place(dsn: str) -> str:
    """Where a DSN points, without its secrets."""
    try:
        parts = psycopg2.extensions.parse_dsn(dsn)
    except psycopg2.ProgrammingError:
        return _UNREADABLE
    where: str = parts.get("host") or "localhost"
    if not parts.get("port", "5432").isdecimal():  # a password with an @ in it lands here
        return _UNREADABLE
    return where if where.startswith("/") else f"{where}:{parts.get('port', '5432')}"


def migrate(dsn: str) -> None:
    """Bring the schema to the newest version. Safe to call from several processes at once."""
    import sqlalchemy
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg2://", creator=lambda: psycopg2.connect(dsn, connect_timeout=10)
    )
    try:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("select pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except sqlalchemy.exc.OperationalError as error:
        raise PostgresUnavailable(place(dsn), _reason(error.orig or error, dsn)) from None
    finally:
        engine.dispose()


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


def copy_in(connection: Connection, table: str, rows: pa.Table) -> int:
    """Append Arrow rows to a table through COPY; the caller commits."""
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(_as_text(rows), buffer, pyarrow.csv.WriteOptions(include_header=False))
    buffer.seek(0)
    target = sql.SQL("copy {} ({}) from stdin (format csv)").format(
        identifier(table), sql.SQL(", ").join(map(sql.Identifier, rows.schema.names))
    )
    with connection.cursor() as cursor:
        cursor.copy_expert(target, buffer)
    return int(rows.num_rows)


def _as_text(rows: pa.Table) -> pa.Table:
    """CSV has no decimals in Arrow's writer; everything else it writes itself."""
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


def _reason(error: BaseException, dsn: str) -> str:
    """Why, in one line; nothing of a DSN that cannot be read is repeated."""
    if place(dsn) == _UNREADABLE:
        return "its text is malformed; percent-encode special characters of the password"
    return (str(error).strip().splitlines() or [type(error).__name__])[0].removeprefix("connection to server ").strip()
