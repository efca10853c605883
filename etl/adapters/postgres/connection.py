"""Connections to Postgres, statements from `sql/` and quoted identifiers.

A DSN is a secret: it is passed by value, never printed. Errors name the place only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import psycopg2
import psycopg2.extensions
from psycopg2 import sql

from etl.errors import PostgresUnavailable

Connection = psycopg2.extensions.connection
Cursor = psycopg2.extensions.cursor
_SQL = Path(__file__).resolve().parents[3] / "sql"
_UNREADABLE = "an unreadable DSN"


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
        raise PostgresUnavailable(place(dsn), reason(error, dsn)) from None
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


def reason(error: BaseException, dsn: str) -> str:
    """Why, in one line; nothing of a DSN that cannot be read is repeated."""
    if place(dsn) == _UNREADABLE:
        return "its text is malformed; percent-encode special characters of the password"
    return (str(error).strip().splitlines() or [type(error).__name__])[0].removeprefix("connection to server ").strip()
