"""The worker of a site as docker-compose.yml starts it, without containers: a real broker, a real Celery worker."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery
from kombu import Connection, Exchange, Producer

from tests.support.compose_host import ComposeHost, compose_host
from tests.support.elsewhere import wait_for


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeHost]:
    made = compose_host(tmp_path_factory.mktemp("compose"))
    with made.broker(), made.service("worker-eu", ready=f"eu@{socket.gethostname()} ready."):
        yield made


@pytest.fixture(scope="module")
def broker(host: ComposeHost) -> str:
    return host.environment("worker-eu")["AIRFLOW__CELERY__BROKER_URL"]


class Harmful:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


def test_a_worker_is_healthy_while_it_takes_tasks_of_its_queue(host: ComposeHost, broker: str) -> None:
    healthy = host.healthy("worker-eu")
    assert (healthy.returncode, healthy.stderr) == (0, "")
    with Celery(broker=broker) as asking:
        (queues,) = asking.control.inspect(timeout=10, limit=1).active_queues().values()
    assert [queue["name"] for queue in queues] == ["eu"]


def test_a_worker_that_is_not_there_is_not_healthy(host: ComposeHost) -> None:
    assert host.healthy("worker-us").returncode == 1


def test_a_health_check_without_its_broker_fails_and_tells_no_password(host: ComposeHost, tmp_path: Path) -> None:
    elsewhere = compose_host(tmp_path)
    said = elsewhere.healthy("worker-eu")
    assert said.returncode == 1
    assert said.stderr.startswith("site-worker does not answer: ")
    assert elsewhere.secrets["BROKER_PASSWORD"] not in said.stdout + said.stderr


def test_a_message_that_is_not_json_is_refused_unread(host: ComposeHost, broker: str, tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Harmful(tmp_path / "proof")))
    assert (tmp_path / "proof").exists(), "whoever unpickles it does harm"
    with Connection(broker) as connection, connection.channel() as channel:
        message = ((Harmful(tmp_path / "harm"),), {}, {})
        Producer(channel).publish(
            message, serializer="pickle", exchange=Exchange(""), routing_key="eu",
            headers={"task": "execute_workload", "id": "1", "lang": "py"},
        )  # fmt: skip
    refused = "Refusing to deserialize"
    wait_for(lambda: refused in host.log("worker-eu").read_text(), 20, host.log("worker-eu"))
    assert not (tmp_path / "harm").exists()
    assert host.healthy("worker-eu").returncode == 0, "and goes on"


@pytest.mark.parametrize("password", [None, "guessed"])
def test_the_broker_answers_nobody_without_its_password(broker: str, password: str | None) -> None:
    address = broker.rpartition("@")[2].partition("/")[0]
    stranger = redis.Redis.from_url(f"redis://{address}", password=password)
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_no_command_line_holds_a_secret(host: ComposeHost) -> None:
    lines = [file.read_bytes() for file in Path("/proc").glob("[0-9]*/cmdline") if file.exists()]
    assert any(b"--queues\0eu" in line for line in lines) or any(b"celery" in line for line in lines)
    assert host.secrets
    for name, secret in host.secrets.items():
        assert not [line for line in lines if secret.encode() in line], name
