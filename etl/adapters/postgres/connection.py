"""Connections to Postgres, statements from `sql/` and quoted identifiers.

A DSN is a secret: it is passed by value, never printed. Errors show only host and database.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.errors
import psycopg2.extensions
from psycopg2 import sql

from etl.errors import MissingPart, PostgresUnavailable

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


NOTICED: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Parameters of libpq to detect a dead host within half a minute."""
LOCK_TIMEOUT = "set lock_timeout = '30s'"
_NOTICED_THERE = (
    "set tcp_keepalives_idle = 15; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3; "
    "set tcp_user_timeout = '30s'"
)
"""The same for the server, so that it detects a dead client: by default it would keep our locks for two hours."""


def session_settings() -> str:
    """The options of every session: bounded waits for locks, and detection of dead clients that hold one."""
    return f"{LOCK_TIMEOUT}; {_NOTICED_THERE}"


def with_keepalives(dsn: str) -> str:
    """The same server, for drivers that take a DSN only."""
    given = psycopg2.extensions.parse_dsn(dsn)
    return psycopg2.extensions.make_dsn(dsn, **{name: value for name, value in NOTICED.items() if name not in given})


@contextmanager
def connect(dsn: str, *, autocommit: bool = False, name: str = "frontstage") -> Iterator[Connection]:
    """A connection that is closed at the end; uncommitted work is rolled back.

    Waiting for a dead host or for a lock is bounded. `name` is the session's name on the server.
    """
    try:
        connection = psycopg2.connect(dsn, application_name=name, **NOTICED)
    except psycopg2.ProgrammingError:
        raise PostgresUnavailable(_UNREADABLE, "its text is malformed") from None
    except psycopg2.OperationalError as error:
        raise PostgresUnavailable(place(dsn), reason(error, dsn)) from None
    try:
        connection.autocommit = True
        with _translated_errors(dsn, connection):
            with connection.cursor() as cursor:
                cursor.execute(session_settings())
            connection.autocommit = autocommit
            yield connection
    finally:
        connection.close()


@contextmanager
def _translated_errors(dsn: str, connection: Connection) -> Iterator[None]:
    """Translate a lost server and a lock timeout into our transient errors.

    The same for a stand-by server, which takes no writes until it is promoted, and, when only reading, for a database
    that no batch has used yet.
    """
    try:
        yield
    except (psycopg2.OperationalError, psycopg2.errors.ReadOnlySqlTransaction) as error:
        raise PostgresUnavailable(place(dsn), reason(error, dsn)) from error
    except psycopg2.InterfaceError as error:  # a statement on a connection that is already lost
        raise PostgresUnavailable(place(dsn), "the connection was lost") from error
    except psycopg2.errors.UndefinedTable as error:
        if 'relation "etl.' not in str(error):
            raise
        what = f"the database at {place(dsn)} has no tables of Frontstage yet"
        raise MissingPart(what, "the first batch makes them") from error
    except psycopg2.DatabaseError as error:  # libpq does not always report a lost connection as such
        if not connection.closed:
            raise
        raise PostgresUnavailable(place(dsn), reason(error, dsn)) from error


def place(dsn: str) -> str:
    """A DSN's host and database, without its secrets."""
    try:
        parts = psycopg2.extensions.parse_dsn(dsn)
    except psycopg2.ProgrammingError:
        return _UNREADABLE
    where: str = parts.get("host") or "localhost"
    if not parts.get("port", "5432").isdecimal():  # a password with an @ in it lands here
        return _UNREADABLE
    return where if where.startswith("/") else f"{where}:{parts.get('port', '5432')}"


def reason(error: BaseException, dsn: str) -> str:
    """The error's cause in one line; never repeats parts of a DSN that cannot be parsed."""
    if place(dsn) == _UNREADABLE:
        return "its text is malformed; percent-encode special characters of the password"
    return (str(error).strip().splitlines() or [type(error).__name__])[0].removeprefix("connection to server ").strip()
