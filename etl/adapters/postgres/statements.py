"""Statements of a ledger: bound values, rows as dictionaries, transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg2.extras import RealDictCursor, execute_values

from etl.adapters.postgres.connection import Connection
from etl.errors import TerminalError


class Statements:
    """Statements about one pipeline, on a connection that the caller owns. `pipeline` is bound in all of them."""

    def __init__(self, connection: Connection, pipeline: str) -> None:
        self.connection, self.pipeline = connection, pipeline

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the statements inside atomically."""
        connection = self.connection
        if not connection.autocommit:
            yield
            return
        connection.autocommit = False
        try:
            yield
            connection.commit()
        except BaseException:
            if not connection.closed:
                connection.rollback()
            raise
        finally:
            if not connection.closed:
                connection.autocommit = True

    def _all(self, query: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        with self.connection.cursor(cursor_factory=RealDictCursor) as cursor:
            cursor.execute(query, {**(values or {}), "pipeline": self.pipeline})
            return [dict(row) for row in cursor.fetchall()]

    def _execute(self, query: str, values: dict[str, Any] | None = None, *, rows: int | None = None) -> int:
        """Returns the number of changed rows; raises if `rows` is given and differs."""
        with self.connection.cursor() as cursor:
            cursor.execute(query, {**(values or {}), "pipeline": self.pipeline})
            if rows is not None and cursor.rowcount != rows:
                raise TerminalError(
                    f"the ledger of {self.pipeline} is not as this run left it ({cursor.rowcount} rows instead of "
                    f"{rows} were changed); nothing was written, run it again"
                )
            return int(cursor.rowcount)

    def _insert(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert all rows by one statement with the placeholder `values %s`."""
        if rows:
            with self.connection.cursor() as cursor:
                execute_values(cursor, query, rows)
