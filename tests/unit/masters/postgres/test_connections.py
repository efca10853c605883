"""Connections that read Arrow: what is known of a server's types is kept, and right."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import adbc_driver_manager
import adbc_driver_postgresql
import psycopg2
import pytest

from etl.errors import PostgresUnavailable
from etl.masters.postgres.connections import ArrowConnections
from etl.stack.supervision.processes import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def arrow() -> ArrowConnections:
    return ArrowConnections()


@pytest.fixture
def sql(database: str) -> Iterator[Any]:
    with closing(psycopg2.connect(database)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        yield cursor


@pytest.fixture
def catalogue_reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the driver knows, for every time that it has read the catalogue of types."""
    read: list[Any] = []
    real = adbc_driver_postgresql.connect

    def counted(uri: str) -> Any:
        read.append(real(uri))
        return read[-1]

    monkeypatch.setattr(adbc_driver_postgresql, "connect", counted)
    return read


def ask(arrow: ArrowConnections, dsn: str, text: str) -> list[dict[str, Any]]:
    with arrow.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        rows: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
        return rows


def others(sql: Any) -> int:
    """Sessions in the database besides the asking one: they end a moment after they were closed."""
    sql.execute("select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
    return int(sql.fetchone()[0])


def test_the_catalogue_of_types_is_read_once(
    arrow: ArrowConnections, database: str, catalogue_reads: list[Any]
) -> None:
    assert [ask(arrow, database, "select 1 as a") for _ in range(3)] == [[{"a": 1}]] * 3
    assert len(catalogue_reads) == 1


def test_a_type_that_came_later_or_changed_is_known(
    arrow: ArrowConnections, database: str, sql: Any, catalogue_reads: list[Any]
) -> None:
    ask(arrow, database, "select 1 as a")
    sql.execute("create type mood as enum ('calm'); create type pair as (a int)")
    sql.execute("create table kept (m mood, p pair); insert into kept values ('calm', row(1))")
    assert ask(arrow, database, "select * from kept") == [{"m": "calm", "p": {"a": 1}}]
    sql.execute("alter type pair add attribute b int; update kept set p = row(1, 2)")
    assert ask(arrow, database, "select p from kept") == [{"p": {"a": 1, "b": 2}}]
    assert len(catalogue_reads) == 3


def test_no_connection_is_left_open_and_a_lost_one_harms_nobody_else(
    arrow: ArrowConnections, database: str, sql: Any
) -> None:
    with arrow.connect(database) as connection, connection.cursor() as cursor:
        cursor.execute("select pg_backend_pid() as pid")
        (row,) = cursor.fetch_arrow_table().to_pylist()
        sql.execute("select pg_terminate_backend(%s)", [row["pid"]])
        with pytest.raises(adbc_driver_manager.Error):
            cursor.execute("select 1")
    assert ask(arrow, database, "select 1 as a") == [{"a": 1}]
    assert wait_until(lambda: others(sql) == 0, 10)


def test_readings_that_began_before_a_type_came_end_as_they_began(
    arrow: ArrowConnections, database: str, sql: Any
) -> None:
    with ExitStack() as stack:
        before = stack.enter_context(arrow.connect(database))
        sql.execute("create type mood as enum ('calm')")
        assert ask(arrow, database, "select 'calm'::mood as m") == [{"m": "calm"}]
        cursor = stack.enter_context(before.cursor())
        cursor.execute("select 2 as a")
        assert cursor.fetch_arrow_table().to_pylist() == [{"a": 2}]


def test_a_forked_process_reads_beside_its_parent(arrow: ArrowConnections, database: str) -> None:
    ask(arrow, database, "select 1 as a")
    child = os.fork()
    if not child:
        right = ask(arrow, database, "select 3 as a") == [{"a": 3}]
        os._exit(0 if right else 1)
    assert ask(arrow, database, "select 4 as a") == [{"a": 4}]
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_is_replaced_is_given_back_when_nobody_reads_on_it(
    arrow: ArrowConnections, database: str, sql: Any, catalogue_reads: list[Any]
) -> None:
    with arrow.connect(database):
        sql.execute("create domain d as int")
        ask(arrow, database, "select 1")
        first, second = catalogue_reads
        adbc_driver_manager.AdbcConnection(first).close()
    with pytest.raises(adbc_driver_manager.Error):
        adbc_driver_manager.AdbcConnection(first)
    adbc_driver_manager.AdbcConnection(second).close()


def test_no_secret_is_shown(arrow: ArrowConnections, database: str) -> None:
    ask(arrow, database, "select 1")
    assert database not in repr(arrow)
    with pytest.raises(PostgresUnavailable) as refused, arrow.connect("postgresql://u:hidden@127.0.0.1:9/none"):
        pass
    assert "hidden" not in f"{refused.value}{refused.value!r}"
