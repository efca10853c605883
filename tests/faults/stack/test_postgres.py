"""The embedded Postgres: it starts, it is private, and no way of dying keeps it from starting again."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pytest
from pydantic import SecretStr

from etl.adapters import postgres
from etl.errors import PostgresUnavailable
from etl.settings import PROJECT, Settings, load
from etl.stack.environment import project_environment
from etl.stack.postgres import check, dsn, embedded_postgres, tcp_dsn
from etl.stack.supervision.processes import StackRunning, gone, locked, wait_until

pytestmark = pytest.mark.stack

HOLD = """
from etl.settings import load
from etl.stack.postgres import embedded_postgres
with embedded_postgres(load()):
    print("up", flush=True)
    input()
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(var=tmp_path / "var")


def ask(where: str, question: str) -> Any:
    with closing(psycopg2.connect(where)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(question)
        return cursor.fetchone() if cursor.description else None


def postmaster(settings: Settings) -> psutil.Process:
    return psutil.Process(int((settings.var / "postgres" / "postmaster.pid").read_text().split("\n")[0]))


def test_it_answers_inside_the_block_and_leaves_no_process_behind(settings: Settings) -> None:
    with embedded_postgres(settings) as where:
        assert where == dsn(settings)
        assert ask(where, "SELECT current_database()") == ("frontstage",)
        assert ask(dsn(settings, "airflow"), "SELECT current_database()") == ("airflow",)
        server = postmaster(settings)
        family = [server, *server.children(recursive=True)]
    assert all(map(gone, family))
    with pytest.raises(PostgresUnavailable):
        check(settings)


def test_only_its_owner_can_reach_the_socket(settings: Settings) -> None:
    with embedded_postgres(settings):
        folder = settings.var / "run" / "postgres"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / ".s.PGSQL.5432").stat().st_mode) == 0o700
        assert not [link for link in postmaster(settings).net_connections("inet") if link.status == "LISTEN"]


def test_committed_rows_survive_when_server_and_supervisor_are_killed(settings: Settings) -> None:
    environment = project_environment(settings)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env=environment,
        cwd=PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        ask(dsn(settings), "CREATE TABLE kept AS SELECT 7 AS number")
        server = postmaster(settings)
        family = [server, *server.children(recursive=True)]
        server.kill()
        holder.kill()
    assert wait_until(lambda: all(map(gone, family)), 60), "the server outlived its supervisor"
    assert wait_until(lambda: not locked(settings), 60)
    with embedded_postgres(settings) as where:
        assert ask(where, "SELECT number FROM kept") == (7,)


def test_a_pid_file_that_names_another_program_does_not_block_the_start(settings: Settings) -> None:
    with embedded_postgres(settings):
        pid_file = settings.var / "postgres" / "postmaster.pid"
        left = pid_file.read_text().split("\n")
    pid_file.write_text("\n".join([str(os.getpid()), *left[1:]]))
    with embedded_postgres(settings) as where:
        assert ask(where, "SELECT 1") == (1,)


def test_a_cluster_that_was_only_half_made_is_made_again(settings: Settings) -> None:
    half = settings.var / "postgres.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    with embedded_postgres(settings) as where:
        assert ask(where, "SELECT 1") == (1,)
    assert not half.exists()


def test_a_path_too_long_for_a_socket_gets_a_private_folder_elsewhere(tmp_path: Path) -> None:
    settings = load(var=tmp_path / ("long" * 25) / "var")
    with embedded_postgres(settings) as where:
        assert ask(where, "SELECT 1") == (1,)
        folder = Path((settings.var / "run" / "postgres-socket").read_text().strip())
        assert not folder.is_relative_to(tmp_path)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()


def test_a_second_stack_on_the_same_folder_is_refused(settings: Settings) -> None:
    with (
        embedded_postgres(settings),
        pytest.raises(StackRunning, match="already runs"),
        embedded_postgres(settings),
    ):
        pass


def test_over_tcp_it_wants_a_password(tmp_path: Path, free_port: int) -> None:
    settings = load(var=tmp_path / "var", postgres_tcp_port=free_port)
    with embedded_postgres(settings) as where:
        assert ask(where, "SELECT 1") == (1,)
        assert ask(tcp_dsn(settings), "SELECT 1") == (1,)
        with pytest.raises(psycopg2.OperationalError, match="password"):
            ask(f"postgresql://postgres@127.0.0.1:{free_port}/frontstage", "SELECT 1")


def test_over_tcp_a_host_that_is_gone_is_noticed_within_half_a_minute_at_both_ends(
    tmp_path: Path, free_port: int
) -> None:
    settings = load(var=tmp_path / "var", postgres_tcp_port=free_port)
    with (
        embedded_postgres(settings),
        postgres.connect(tcp_dsn(settings)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("select name, setting::int from pg_settings where name ~ '^tcp_|^lock_timeout'")
        there = dict(cursor.fetchall())
        assert there["tcp_keepalives_idle"] + there["tcp_keepalives_interval"] * there["tcp_keepalives_count"] <= 30
        assert 0 < there["tcp_user_timeout"] <= 30_000
        assert 0 < there["lock_timeout"] <= 30_000
        with socket.socket(fileno=os.dup(connection.fileno())) as here:
            idle, every, count = (
                here.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            )
            assert here.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert 0 < idle + every * count <= 30


def test_a_given_server_that_does_not_answer_is_named_without_its_password(tmp_path: Path, free_port: int) -> None:
    given = SecretStr(f"postgresql://me:pass-word@127.0.0.1:{free_port}/shop")
    settings = load(var=tmp_path / "var", postgres_dsn=given)
    with pytest.raises(PostgresUnavailable, match=rf"127\.0\.0\.1:{free_port} does not answer") as refused:
        check(settings)
    assert "pass-word" not in str(refused.value)
    assert "pass-word" not in repr(refused.value)


def test_a_given_server_is_used_and_nothing_is_started(settings: Settings, tmp_path: Path) -> None:
    with embedded_postgres(settings) as where:
        other = load(var=tmp_path / "other", postgres_dsn=SecretStr(where))
        with embedded_postgres(other) as given:
            assert ask(given, "SELECT current_database()") == ("frontstage",)
        assert dsn(other, "airflow").startswith("postgresql://postgres@/airflow?host=")
        assert ask(dsn(other, "airflow"), "SELECT current_database()") == ("airflow",)
        assert not (tmp_path / "other" / "postgres").exists()


@pytest.fixture
def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
