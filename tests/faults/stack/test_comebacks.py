"""Services that come back from any single kill, without a hand; the longest gap is printed."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from etl.settings import PROJECT, Settings, load
from etl.spark.runner.client import answers
from etl.stack.airflow import Airflow
from etl.stack.daemon import down, up_detached
from etl.stack.processes import wait_until
from etl.stack.stack import _airflow_answers
from etl.stack.state import State, state

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(1_800)]
BOUND_S = 300.0  # on a machine that others use, too; what it took is printed


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return load(var=tmp_path_factory.mktemp("comebacks") / "var", airflow_port=port, jars=PROJECT / "var" / "jars")


@pytest.fixture(scope="module")
def up(settings: Settings) -> Iterator[State]:
    yield up_detached(settings)
    down(settings)


def _victim(up: State, matches: Callable[[str], bool]) -> psutil.Process:
    assert up.pid is not None
    found = [one for one in psutil.Process(up.pid).children(recursive=True) if matches(" ".join(one.cmdline()))]
    return found[0]


def _all_answer(settings: Settings, victim: psutil.Process) -> Callable[[], bool]:
    def look() -> bool:
        if victim.is_running() and victim.status() != psutil.STATUS_ZOMBIE:
            return False
        if set(state(settings).services.values()) != {"running"} or not answers(settings.runner_socket):
            return False
        with Airflow.of(settings) as airflow:
            return _airflow_answers(airflow)

    return look


VICTIMS: dict[str, Callable[[str], bool]] = {
    "jvm": lambda line: "SparkSubmit" in line or "java" in line.split(" ")[0],
    "runner": lambda line: line.endswith("-m etl.spark.runner") and "guard.py" not in line,
    "postgres": lambda line: "/bin/postgres -D" in line and "guard.py" not in line,
    "scheduler": lambda line: line.startswith("airflow scheduler"),
    "dag-processor": lambda line: line.startswith("airflow dag-processor"),
    "triggerer": lambda line: line.startswith("airflow triggerer"),
    "api-server": lambda line: line.startswith("airflow api"),
    "airflow host": lambda line: "etl.stack.airflow_host" in line and "guard.py" not in line,
    "guard of the runner": lambda line: "guard.py" in line and "etl.spark.runner" in line,
}


@pytest.mark.parametrize("name", VICTIMS)
def test_everything_answers_again_after_a_kill(settings: Settings, up: State, name: str) -> None:
    victim = _victim(up, VICTIMS[name])
    began = time.monotonic()
    os.kill(victim.pid, signal.SIGKILL)
    assert wait_until(_all_answer(settings, victim), BOUND_S, every_s=0.5), f"{name} did not come back"
    print(f"{name}: all answers again after {time.monotonic() - began:.0f} s")
