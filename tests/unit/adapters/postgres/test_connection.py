"""Whatever becomes of a line to Postgres, who holds it hears one sentence that says: try again."""

from __future__ import annotations

import psycopg2
import pytest

from etl.adapters import postgres
from etl.errors import PostgresUnavailable


def test_a_stand_by_server_is_worth_another_try(database: str) -> None:
    def write() -> None:
        with postgres.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute("set transaction read only; create table t (x int)")

    with pytest.raises(PostgresUnavailable, match="read-only"):
        write()


def test_an_error_without_a_kind_on_a_lost_line_is_the_line(database: str) -> None:
    def lose() -> None:
        with postgres.connect(database) as connection:
            connection.close()
            raise psycopg2.DatabaseError("error with status PGRES_TUPLES_OK and no message from the libpq")

    with pytest.raises(PostgresUnavailable, match="no message"):
        lose()


def test_an_error_of_a_statement_stays_what_it_is(database: str) -> None:
    with (
        pytest.raises(psycopg2.errors.DivisionByZero),
        postgres.connect(database) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("select 1 / 0")
