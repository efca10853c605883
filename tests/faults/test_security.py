"""What docs/security.md promises of sockets, roles and files."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from etl.adapters import postgres
from etl.settings import PROJECT
from etl.spark.runner.client import ForeignSocket, answers
from etl.spark.runner.connection import foreign
from tests.faults.world import SECRET, World

ROLE = re.search(r"```sql\n(.*?)```", (PROJECT / "docs" / "security.md").read_text(), re.DOTALL)


@pytest.fixture
def analyst(world: World) -> Iterator[str]:
    """The role that docs/security.md gives to people, and a DSN to log in as it."""
    assert ROLE is not None, "the page has the statements"
    world.site.execute("drop role if exists analyst")
    world.site.execute(ROLE[1])
    yield world.site.dsn.replace(f"postgres:{SECRET}@", "analyst@")
    world.site.execute("drop owned by analyst; drop role analyst")


def _refused(dsn: str, *statements: str) -> None:
    with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        for text in statements:
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                cursor.execute(text)


def test_a_reader_of_the_mart_reads_it_and_changes_nothing_there(world: World, analyst: str) -> None:
    with postgres.connect(analyst, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("select current_user, count(*) from mart.orders")
        assert cursor.fetchone() == ("analyst", len(world.booked))
    _refused(
        analyst, "delete from mart.orders", "insert into mart.orders (order_id) values (1)",
        "update mart.orders set quantity = 0", "create table mart.mine (x int)", "truncate mart.daily_sales",
        "drop table mart.orders", "alter table mart.orders add column x int", "create table public.mine (x int)",
        "set role postgres",
    )  # fmt: skip


def test_a_reader_of_the_mart_reaches_no_table_and_no_function_of_ledger_and_masters(
    world: World, analyst: str
) -> None:
    tables = [name for name in world._all_tables() if name.startswith(("etl.", "master."))]
    assert {"etl.batch", "etl.claim_run", "etl.pipeline", "master.customers"} <= set(tables)
    for name in tables:
        _refused(analyst, f"select from {name}", f"delete from {name}", f"truncate {name}", f"drop table {name}",
                 f"insert into {name} default values", f"alter table {name} rename to x",
                 f"create trigger t before update on {name} execute function pg_notify()")  # fmt: skip
    _refused(analyst, "update etl.batch set state = 'held'", "drop schema etl cascade", "create table etl.mine (x int)")
    query = ("select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
             "where n.nspname in ('etl', 'master')")  # fmt: skip
    definers = world.site.execute(f"{query} and p.prosecdef")
    assert definers == [("master.log_change()",)], "no other function lends its owner's rights"
    query = "select has_function_privilege('public', 'master.log_change()', 'execute')"
    assert world.site.execute(query) == [(False,)], "nobody makes it a trigger of a table of their own"
    _refused(analyst, "create temp table mine (x int); create trigger t after insert on mine "
             "for each statement execute function master.log_change('x')")  # fmt: skip


def test_tables_of_the_mart_that_come_later_are_readable_too(world: World, analyst: str) -> None:
    world.site.execute("create table mart.later as select 1 as x")
    with postgres.connect(analyst) as connection, connection.cursor() as cursor:
        cursor.execute("select x from mart.later")
        assert cursor.fetchone() == (1,)
    world.site.execute("drop table mart.later")


def test_a_socket_in_a_folder_that_everybody_may_write_to_is_not_asked(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        folder.chmod(0o777)
        with pytest.raises(ForeignSocket, match="everybody may write"):
            answers(folder / "s")
        folder.chmod(0o700)
        assert not answers(folder / "s"), "nobody listens"
    assert not answers(folder / "nothing")


@pytest.mark.parametrize(
    ("of_socket", "of_folder", "mode", "wrong"),
    [
        (7, 7, 0o700, None),
        (0, 0, 0o755, None),
        (7, 0, 0o1777, None),
        (8, 7, 0o700, "belongs to user 8"),
        (7, 8, 0o755, "is in a folder of user 8"),
        (7, 7, 0o777, "is in a folder that everybody may write to"),
    ],
)
def test_only_a_socket_that_we_or_root_put_there_is_asked(
    of_socket: int, of_folder: int, mode: int, wrong: str | None
) -> None:
    def seen(mode: int, user: int) -> os.stat_result:
        return os.stat_result((mode, 0, 0, 1, user, 0, 0, 0, 0, 0))

    assert foreign(seen(0o600, of_socket), seen(mode, of_folder), 7) == wrong


def test_an_unreachable_server_is_named_without_the_password(world: World) -> None:
    wrong = f"postgresql://postgres:{SECRET}@127.0.0.1:1/x"
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as refused, postgres.connect(wrong):
        pass
    assert SECRET not in repr(refused.value) + str(refused.value)
