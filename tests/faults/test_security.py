"""What docs/security.md promises of sockets, roles and files."""

from __future__ import annotations

import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg2
import pytest

from etl.adapters import postgres
from etl.private_paths import NotPrivate
from etl.settings import PROJECT, load
from etl.spark.runner.calls import StepCall
from etl.spark.runner.client import answers, responds
from etl.spark.runner.connection import post
from etl.spark.runner.service import listening
from tests.faults.world import SECRET, World
from tests.support.another_user import give_away

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


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770, 0o720])
def test_a_socket_in_a_folder_that_others_may_write_to_is_not_asked(tmp_path: Path, mode: int) -> None:
    with listening(tmp_path / "run" / "s") as listener, _answering(listener):
        path = tmp_path / "run" / "s"
        assert responds(path)
        path.parent.chmod(mode)
        for ask in (answers, lambda path: post(path, "/steps/ingest", StepCall(pipeline="orders", run_id="1"), print)):
            with pytest.raises(NotPrivate, match=rf"run may be written to by others \(mode {mode:04o}\).*chmod go-w"):
                ask(path)
        assert not responds(path), "nobody of ours"
    assert not answers(tmp_path / "nothing")
    assert not responds(tmp_path / "nothing")


def test_a_socket_of_another_user_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(tmp_path / "run" / "s") as listener, _answering(listener):
        give_away(tmp_path / "run" / "s", monkeypatch)
        with pytest.raises(NotPrivate, match="belongs to user"):
            answers(tmp_path / "run" / "s")
        assert not responds(tmp_path / "run" / "s"), "nobody of ours"


def test_the_driver_listens_in_no_folder_that_another_user_has_made_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    path = load(var=tmp_path / ("long" * 30)).runner_socket
    assert path.parent.parent == tmp_path
    path.parent.mkdir(mode=0o777)
    path.parent.chmod(0o777)
    with pytest.raises(NotPrivate, match="may be written to by others"), listening(path):
        pass
    path.parent.chmod(0o700)
    give_away(path.parent, monkeypatch)
    with pytest.raises(NotPrivate, match="belongs to user"), listening(path):
        pass
    assert not path.exists()


@contextmanager
def _answering(listener: socket.socket) -> Iterator[None]:
    """A driver that says of everything that it is well."""

    def serve() -> None:
        with suppress(OSError):  # the end of the test
            while True:
                with listener.accept()[0] as asker:
                    if asker.recv(4096):
                        asker.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    listener.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=10)
    assert not thread.is_alive()


def test_an_unreachable_server_is_named_without_the_password(world: World) -> None:
    wrong = f"postgresql://postgres:{SECRET}@127.0.0.1:1/x"
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as refused, postgres.connect(wrong):
        pass
    assert SECRET not in repr(refused.value) + str(refused.value)
