"""Real Airflow on the embedded Postgres, in the background: it answers, keeps secrets, leaves nothing."""

from __future__ import annotations

import os
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from etl.settings import Settings, load
from etl.stack.airflow import services as airflow_services
from etl.stack.airflow.client import Airflow, AirflowRefused
from etl.stack.credentials import credentials
from etl.stack.daemon import down, up_detached
from etl.stack.state import State
from etl.stack.supervision.processes import gone, locked, marked, wait_until
from tests.support.command_line import command_line

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return load(var=tmp_path_factory.mktemp("stack") / "var", airflow_port=port)


@pytest.fixture(scope="module")
def up(settings: Settings) -> Iterator[State]:
    yield up_detached(settings, ["postgres", "airflow"])
    down(settings)


@pytest.fixture(scope="module")
def family(up: State) -> list[psutil.Process]:
    assert up.pid is not None
    return [psutil.Process(up.pid), *psutil.Process(up.pid).children(recursive=True)]


def test_every_part_is_healthy_and_the_login_works(settings: Settings, up: State) -> None:
    assert up.services == {"postgres": "running", "airflow": "running"}
    with Airflow.of(settings) as airflow:
        assert set(airflow.health().values()) == {"healthy"}
        with pytest.raises(AirflowRefused, match="404"):
            airflow.run("no-such-dag", "no-such-run")
    with (
        Airflow(airflow_services.url(settings), airflow_services.USER, "wrong") as stranger,
        pytest.raises(AirflowRefused, match="the login is not accepted"),
    ):
        stranger.runs("orders")


def test_it_listens_on_this_machine_only(settings: Settings, family: list[psutil.Process]) -> None:
    links = [link for process in family for link in process.net_connections("inet") if link.status == "LISTEN"]
    assert {(link.laddr.ip, link.laddr.port) for link in links} == {("127.0.0.1", settings.airflow_port)}


def test_no_secret_is_on_a_command_line_or_open_to_others(settings: Settings, family: list[psutil.Process]) -> None:
    ours = credentials(settings)
    lines = " ".join(" ".join(command_line(process)) for process in family)
    for secret in (ours.airflow_password, ours.fernet_key, ours.jwt_secret, ours.api_secret_key):
        assert secret not in lines
        assert secret not in (settings.var / "logs" / "api-server.log").read_text()
    for path in (settings.var / "secrets.json", settings.var / "airflow" / "passwords.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_killed_supervisor_takes_all_of_airflow_with_it(
    settings: Settings, up: State, family: list[psutil.Process]
) -> None:
    assert len(family) > 10
    assert up.pid is not None
    os.kill(up.pid, signal.SIGKILL)
    assert wait_until(lambda: all(map(gone, family)), 120), "a process outlived its supervisor"
    assert wait_until(lambda: not locked(settings), 60)
    assert marked(settings.var) == []
    assert Path(settings.var, "airflow", "schema").exists(), "the next start need not migrate"
