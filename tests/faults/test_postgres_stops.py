"""The database server is killed, or stopped in order, at every point of a batch, and comes back later."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
import pytest

from etl.adapters import postgres
from etl.samples import generate_master
from etl.settings import Settings, load
from etl.stack.postgres import embedded_postgres
from etl.stack.supervision.processes import gone, wait_until
from tests.faults.test_deaths import POINTS
from tests.faults.world import World, expect_failure, steady

pytestmark = pytest.mark.full
End = Literal["killed", "stopped"]


@dataclass
class Server:
    """A server with a seeded database, which a test may end and start."""

    settings: Settings
    dsn: str = ""
    _up: ExitStack | None = None

    def start(self) -> None:
        self._up = ExitStack()
        self.dsn = self._up.enter_context(embedded_postgres(self.settings))

    def end(self, how: End) -> None:
        if how == "killed":
            self._kill()
        if self._up is not None:
            self._up.close()
        self._up = None

    def _kill(self) -> None:
        pid = int((self.settings.var / "postgres" / "postmaster.pid").read_text().split("\n")[0])
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        for process in family:
            with suppress(psutil.NoSuchProcess):  # without the first one the others end by themselves
                process.kill()
        wait_until(lambda: all(map(gone, family)), 60)

    def execute(self, command: str) -> None:
        with postgres.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(command)

    def named(self, database: str) -> str:
        return self.dsn.replace("/frontstage?", f"/{database}?")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="fs-"))
    made = Server(load(var=folder / "var"))
    made.start()
    made.execute("create database seeded")
    postgres.migrate(made.named("seeded"))
    with postgres.connect(made.named("seeded")) as connection:
        generate_master(connection, seed=1, customers=10, products=10)
    yield made
    made.end("stopped")
    shutil.rmtree(folder, ignore_errors=True)


_NUMBERS = itertools.count(1)


@pytest.fixture
def far_world(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A world on that server."""
    steady(monkeypatch.setattr)
    name = f"world_{next(_NUMBERS)}"
    server.execute(f"create database {name} template seeded")
    made = World.under(tmp_path, server.named(name))
    made.begin()
    yield made
    made.site.close()
    server.execute(f"drop database {name} with (force)")


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("point", POINTS)
def test_the_server_is_away(far_world: World, server: Server, point: str, how: End) -> None:
    far_world.site = far_world.site.meanwhile(point, lambda: server.end(how))
    expect_failure(far_world)
    expect_failure(far_world)  # it is still away
    server.start()
    far_world.more()
    far_world.recover()
    far_world.check()
