"""What docs/security.md promises of sockets, roles and files."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import psycopg2
import pytest

from etl.adapters import postgres
from etl.settings import PROJECT
from etl.spark.runner.client import ForeignSocket, answers
from tests.faults.world import SECRET, World

ROLE = re.search(r"```sql\n(.*?)```", (PROJECT / "docs" / "security.md").read_text(), re.DOTALL)


def test_a_reader_of_the_mart_sees_neither_ledger_nor_masters(world: World) -> None:
    assert ROLE is not None
    world.site.execute("drop role if exists analyst")
    world.site.execute(ROLE[1])
    try:
        with postgres.connect(world.site.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("set role analyst")
            cursor.execute("select count(*) from mart.orders")
            assert cursor.fetchone() == (len(world.booked),)
            for text in (
                "select * from etl.batch", "update etl.batch set state = 'held'", "delete from etl.claim_run",
                "select * from master.customers", "delete from mart.orders",
                "insert into mart.orders (order_id) values (1)",
                "create table mart.mine (x int)", "truncate mart.daily_sales",
            ):  # fmt: skip
                with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                    cursor.execute(text)
    finally:
        world.site.execute("drop owned by analyst; drop role analyst")


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


def test_an_unreachable_server_is_named_without_the_password(world: World) -> None:
    wrong = f"postgresql://postgres:{SECRET}@127.0.0.1:1/x"
    with pytest.raises(Exception, match=r"127\.0\.0\.1:1") as refused, postgres.connect(wrong):
        pass
    assert SECRET not in repr(refused.value) + str(refused.value)
