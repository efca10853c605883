"""The whole stack comes back from any single kill, without a hand, and loads what landed meanwhile.

    an order lands every second ─▶ Airflow ─▶ resident driver ─▶ mart            one process is killed
                                                                 how long until there is a load that began after it?

The line of a case in `make faults` says the longest gap between two loads around its kill. ADR 75 has the aim; a case
has a bound only, since a machine may be busy.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil
import psycopg2
import pytest

from etl.adapters import postgres
from etl.errors import FrontstageError
from etl.pipeline.tasks.in_process import InProcess
from etl.settings import PROJECT, Settings, load
from etl.spark.runner.client import answers
from etl.stack.airflow.client import Airflow
from etl.stack.daemon import StackFailed, down, up_detached
from etl.stack.postgres import dsn
from etl.stack.stack import _airflow_answers
from etl.stack.state import state
from etl.stack.supervision.processes import locked, marked, wait_until
from tests.support.site import Site, order

pytestmark = [pytest.mark.stack, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(1_800)]
BOUND_S = 300.0
SETTLED_S = 30.0  # what is dead may look alive for so long


def seed(where: str) -> None:
    """Customers and products 1 … 10, before the stack starts for the first time."""
    from etl.samples import generate_master

    postgres.migrate(where)
    with postgres.connect(where) as connection, connection.cursor() as cursor:
        cursor.execute("select from master.customers")
        if cursor.fetchone() is None:
            generate_master(connection, seed=1, customers=10, products=10)


@dataclass
class Live:
    """A running stack, orders that keep landing, and what must have become of them."""

    settings: Settings
    landed: int = 0
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def site(self) -> Site:
        return Site.under(self.settings.home, dsn(self.settings), InProcess())

    def start(self) -> None:
        for last in (False, False, True):  # a start has a bound, which a machine that is very busy may miss
            try:
                up_detached(self.settings, on_postgres=f"{__name__}:seed")
                break
            except StackFailed:
                if last:
                    raise
        with Airflow.of(self.settings) as airflow:
            airflow.wait_for_dag("orders", BOUND_S)
            airflow.unpause("orders")

    def land(self, count: int = 1) -> None:
        with self._lock:
            number = next(self._numbers)
            draft = self.site.land(f".{number}", *(order(self.landed + one) for one in range(1, count + 1)))
            draft.rename(draft.with_name(f"{number:06d}.jsonl"))
            self.landed += count

    @contextmanager
    def landing(self) -> Iterator[None]:
        """Orders land, one a second, for as long as the block lasts."""
        over = threading.Event()

        def go_on() -> None:
            while not over.wait(1.0):
                self.land()

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def in_mart(self) -> int:
        with suppress(FrontstageError, psycopg2.Error):
            ((count,),) = self.site.execute("select count(*) from mart.orders")
            return int(count)
        return -1

    def loads_since(self, moment: float) -> list[float]:
        """When batches were loaded, from a moment on."""
        query = (
            "select extract(epoch from loaded_at)::float from etl.batch where loaded_at >= to_timestamp(%s) order by 1"
        )
        with suppress(FrontstageError, psycopg2.Error):
            return [at for (at,) in self.site.execute(query, moment)]
        return []

    def all_answer(self) -> bool:
        if set(state(self.settings).services.values()) != {"running"} or not answers(self.settings.runner_socket):
            return False
        with suppress(FrontstageError), Airflow.of(self.settings) as airflow:
            return _airflow_answers(airflow)
        return False

    def victim(self, matches: Callable[[str], bool]) -> psutil.Process | None:
        pid = state(self.settings).pid
        assert pid is not None, "the stack runs"
        for process in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if matches(" ".join(process.cmdline())):
                    return process
        return None


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    home = tmp_path_factory.mktemp("comebacks")
    made = Live(load(home=home, airflow_port=port, jars=PROJECT / "var" / "jars"))
    made.start()
    try:
        made.land()
        assert wait_until(lambda: made.in_mart() == made.landed, BOUND_S, every_s=0.2), "the first order is not loaded"
        yield made
    finally:
        down(made.settings)


VICTIMS: dict[str, Callable[[str], bool]] = {
    "jvm": lambda line: "SparkSubmit" in line or "java" in line.split(" ")[0],
    "runner": lambda line: line.endswith("-m etl.spark.runner") and "guard.py" not in line,
    "postgres": lambda line: "/bin/postgres -D" in line and "guard.py" not in line,
    "scheduler": lambda line: line.startswith("airflow scheduler"),
    "dag-processor": lambda line: line.startswith("airflow dag-processor"),
    "triggerer": lambda line: line.startswith("airflow triggerer"),
    "api-server": lambda line: line.startswith("airflow api"),
    "airflow host": lambda line: "etl.stack.airflow.host" in line and "guard.py" not in line,
    "guard of the runner": lambda line: "guard.py" in line and "etl.spark.runner" in line,
    "task": lambda line: re.match(r"airflow worker -- [0-9a-f]{8}-", line) is not None,
}


def _measure(live: Live, record: Callable[[str, object], None], kill: Callable[[], None]) -> None:
    """Kill while orders land; record the longest time without a load, until all is as before."""
    with live.landing():
        began = time.time()
        assert wait_until(lambda: bool(live.loads_since(began)), BOUND_S, every_s=0.2), "nothing was loaded before"
        before = live.loads_since(began)[0]
        kill()
        killed = time.time()
        assert wait_until(live.all_answer, BOUND_S, every_s=0.5), "not all answers again"
        healthy = time.time()
        settled = max(healthy, killed + SETTLED_S)
        assert wait_until(lambda: bool(live.loads_since(settled)), BOUND_S, every_s=0.5), "nothing was loaded after it"
    loads = [before, *live.loads_since(before)]
    gap = max(after - earlier for earlier, after in itertools.pairwise(loads))
    record("longest gap between loads", f"{gap:.0f} s")
    record("all answered again after", f"{healthy - killed:.0f} s")


def _check(live: Live) -> None:
    assert wait_until(lambda: live.in_mart() == live.landed, BOUND_S, every_s=0.5), "orders are missing in the mart"
    assert live.site.inventory().faults == []


@pytest.mark.parametrize("name", VICTIMS)
def test_loads_go_on_after_a_kill(live: Live, record_property: Callable[[str, object], None], name: str) -> None:
    def kill() -> None:
        found: list[psutil.Process] = []
        assert wait_until(lambda: _found(live, name, found), BOUND_S, every_s=0.01), f"there is no {name}"
        os.kill(found[0].pid, signal.SIGKILL)

    _measure(live, record_property, kill)
    _check(live)


def test_loads_go_on_after_the_runner_was_stopped(live: Live, record_property: Callable[[str, object], None]) -> None:
    """As a debugger or a host that is out of memory does: the process is there and says nothing."""

    def stop() -> None:
        found = live.victim(VICTIMS["runner"])
        assert found is not None, "there is no runner"
        found.suspend()
        assert wait_until(lambda: not found.is_running(), BOUND_S, every_s=0.5), "a driver that hangs is let be"

    _measure(live, record_property, stop)
    _check(live)


def _found(live: Live, name: str, found: list[psutil.Process]) -> bool:
    process = live.victim(VICTIMS[name])
    if process is not None:
        found.append(process)
    return process is not None


def test_a_killed_supervisor_leaves_nothing_that_the_next_start_minds(
    live: Live, record_property: Callable[[str, object], None]
) -> None:
    def kill() -> None:
        pid = state(live.settings).pid
        assert pid is not None, "the stack runs"
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not locked(live.settings), 60), "the stack outlived its supervisor"
        assert marked(live.settings.var) == []
        live.start()

    _measure(live, record_property, kill)
    _check(live)
