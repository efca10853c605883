"""A start that cannot succeed says why in one sentence and starts nothing; `down` ends everything."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pydantic import SecretStr

from etl.errors import FrontstageError, MissingPart, PortTaken, PostgresUnavailable, SettingsError
from etl.settings import Settings, load
from etl.stack import postgres
from etl.stack.daemon import StackFailed, down, up_detached
from etl.stack.stack import Extra, Stack
from etl.stack.state import state
from etl.stack.supervision.processes import StackRunning, gone, locked, marked, wait_until

pytestmark = pytest.mark.stack


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    settings = load(var=tmp_path / "var")
    yield settings
    down(settings)


def refuse(settings: Settings, kind: type[FrontstageError], *parts: str) -> str:
    """Start, expect a refusal before anything is started, and return its sentence."""
    with pytest.raises(kind) as refused, Stack(settings, parts or ("postgres", "airflow")):  # type: ignore[arg-type]
        pass
    assert marked(settings.var) == []
    assert not locked(settings)
    assert not (settings.var / "postgres").exists(), "something was started before the check"
    return str(refused.value)


def test_a_taken_port_is_named_with_its_setting(tmp_path: Path, taken_port: int) -> None:
    settings = load(var=tmp_path / "var", airflow_port=taken_port)
    assert refuse(settings, PortTaken) == (
        f"port {taken_port} on 127.0.0.1 is taken by another program; free it or set FRONTSTAGE_AIRFLOW_PORT"
    )


def test_two_services_cannot_share_a_port(tmp_path: Path) -> None:
    settings = load(var=tmp_path / "var", airflow_port=18999, postgres_tcp_port=18999)
    assert "give each a port of its own" in refuse(settings, SettingsError)


def test_a_given_postgres_that_does_not_answer_ends_the_start(tmp_path: Path) -> None:
    given = SecretStr("postgresql://me:pass-word@127.0.0.1:1/shop")
    sentence = refuse(load(var=tmp_path / "var", postgres_dsn=given), PostgresUnavailable, "postgres")
    assert "127.0.0.1:1 does not answer" in sentence
    assert "pass-word" not in sentence


def test_too_little_disk_ends_the_start(tmp_path: Path) -> None:
    settings = load(var=tmp_path / "var", disk_free_bytes=2**60)
    assert "FRONTSTAGE_DISK_FREE_BYTES" in refuse(settings, MissingPart, "postgres")


def test_a_java_that_is_not_there_ends_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    sentence = refuse(load(var=tmp_path / "var"), MissingPart, "spark")
    assert "install Java 17" in sentence


def test_jars_that_are_not_there_end_the_start(tmp_path: Path) -> None:
    settings = load(var=tmp_path / "var", jars=tmp_path / "nowhere")
    assert "make setup" in refuse(settings, MissingPart, "spark")


def test_a_folder_that_cannot_be_written_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(MissingPart, match="cannot be written"),
        Stack(load(var=tmp_path / "file"), ["postgres"]),
    ):
        pass


def test_an_error_inside_the_block_stops_everything(settings: Settings) -> None:
    servers = []

    def look_and_fail(stack: Stack) -> None:
        pid = int((settings.var / "postgres" / "postmaster.pid").read_text().split("\n")[0])
        servers.append(psutil.Process(pid))
        assert stack.statuses() == {"postgres": "running"}
        assert state(settings).pid == os.getpid()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Stack(settings, ["postgres"]) as stack:
        look_and_fail(stack)
    assert len(servers) == 1
    assert gone(servers[0])
    assert not state(settings).running


def test_a_killed_postgres_is_started_again(settings: Settings) -> None:
    with Stack(settings, ["postgres"]) as stack:
        pid_file = settings.var / "postgres" / "postmaster.pid"
        first = pid_file.read_text().split("\n")[0]
        os.kill(int(first), signal.SIGKILL)

        def another_answers() -> bool:
            try:
                postgres.check(settings)
            except PostgresUnavailable:
                return False
            return pid_file.read_text().split("\n")[0] != first

        assert wait_until(another_answers, 120), "Postgres was not started again"
        assert wait_until(lambda: stack.statuses() == {"postgres": "running"}, 60)


def test_a_background_stack_is_found_refused_twice_and_ended(settings: Settings) -> None:
    said: list[str] = []
    extra = Extra("sleeper", ("sleep", "600"))
    up = up_detached(settings, ["postgres"], [extra], progress=said.append)
    assert up.running
    assert up.services == {"postgres": "running", "sleeper": "running"}
    assert said == ["Postgres answers"]
    assert up == state(settings)
    assert postgres.check(settings).startswith("18")
    with pytest.raises(StackRunning):
        up_detached(settings, ["postgres"])
    assert up.pid is not None
    family = [psutil.Process(up.pid), *psutil.Process(up.pid).children(recursive=True)]
    assert down(settings) is True
    assert all(map(gone, family))
    assert down(settings) is False


def test_a_crashed_supervisor_leaves_nothing(settings: Settings) -> None:
    up = up_detached(settings, ["postgres"])
    assert up.pid is not None
    family = [psutil.Process(up.pid), *psutil.Process(up.pid).children(recursive=True)]
    os.kill(up.pid, signal.SIGKILL)
    assert wait_until(lambda: all(map(gone, family)), 60)
    assert wait_until(lambda: not locked(settings), 60)
    assert not state(settings).running
    assert up_detached(settings, ["postgres"]).running


def test_down_ends_what_is_left_when_supervisor_and_guards_were_killed(settings: Settings) -> None:
    up = up_detached(settings, ["postgres"], [Extra("sleeper", ("sleep", "600"))])
    assert up.pid is not None
    supervisor = psutil.Process(up.pid)
    guards = supervisor.children()
    rest = [process for guard in guards for process in guard.children(recursive=True)]
    for process in (supervisor, *guards):
        process.suspend()  # none may notice another's end
    for process in (supervisor, *guards):
        process.kill()
    assert wait_until(lambda: all(map(gone, (supervisor, *guards))), 60)
    assert not all(map(gone, rest))
    assert down(settings) is True
    assert wait_until(lambda: all(map(gone, rest)), 60)


def test_a_background_stack_that_cannot_start_says_why_and_leaves_nothing(settings: Settings) -> None:
    cluster = settings.var / "postgres"
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("7\n")
    with pytest.raises(StackFailed, match=r"^Postgres ended at once \(.*\); its log is .*postgres\.log$"):
        up_detached(settings, ["postgres"])
    assert not locked(settings)
    assert marked(settings.var) == []
