"""Statements of the page: bound values, rows as dictionaries, read-only."""

from __future__ import annotations

from typing import Any

from psycopg2.extras import RealDictCursor

from etl.adapters import postgres

SLOWEST_MS = 5_000
"""A longer statement is cancelled: an abandoned page must not keep the database busy."""


def rows(connection: postgres.Connection, name: str, /, **values: Any) -> list[dict[str, Any]]:
    """The rows of `sql/<name>.sql`."""
    with connection.cursor(cursor_factory=RealDictCursor) as cursor:
        cursor.execute(postgres.statement(name), values)
        return [dict(row) for row in cursor.fetchall()]


def read_only(connection: postgres.Connection) -> None:
    """Make a connection read-only, with a statement timeout."""
    connection.set_session(readonly=True, autocommit=True)
    with connection.cursor() as cursor:
        cursor.execute("select set_config('statement_timeout', %s, false)", (str(SLOWEST_MS),))
