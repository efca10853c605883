"""One writer: who is stopped is overtaken and refused, who comes second waits, and no pooler lends the lock."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from etl.adapters import lease, ledger
from etl.errors import Busy
from tests.faults.drivers import FAILED, SUCCEEDED, Nursery
from tests.faults.pooler import pooled
from tests.faults.world import World, expect_failure
from tests.support.site import order

STOPPED = ("after input is fixed", "before the note", "before the decision", "after the decision", "before the verdict",
           "before fact is published", "after fact is published", "before the mart is loaded")  # fmt: skip


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "SILENT_S", 0.3)


def _overtaken(world: World, drivers: Nursery, point: str) -> int:
    """A driver that stops at a point, is overtaken, and goes on; gives how it ended."""
    pid = drivers.begin(world.site.settings.home, world.site.dsn, point, "stop")
    drivers.stopped(pid)
    world.more()
    threading.Event().wait(0.4)  # longer than the silence that is allowed: time is what this is about
    world.recover()
    decided = _notes(world)
    os.kill(pid, signal.SIGCONT)
    end = drivers.end_of(pid)
    assert _notes(world) == decided, "a note must tell what was decided: a restored ledger believes it"
    return end


def _notes(world: World) -> dict[str, bytes]:
    folder = world.site.settings.warehouse / "orders"
    return {path.name: path.read_bytes() for path in folder.glob("_decisions/*.json")}


@pytest.mark.usefixtures("impatient")
def test_a_stopped_driver_is_overtaken_and_refused_when_it_goes_on(world: World, drivers: Nursery) -> None:
    assert _overtaken(world, drivers, "before the decision") == FAILED
    world.check()


@pytest.mark.full
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("point", STOPPED)
def test_a_driver_stopped_and_overtaken(world: World, drivers: Nursery, point: str) -> None:
    assert _overtaken(world, drivers, point) == FAILED
    world.check()


@pytest.mark.full
def test_a_driver_that_stops_for_a_moment_goes_on(world: World, drivers: Nursery) -> None:
    pid = drivers.begin(world.site.settings.home, world.site.dsn, "before the decision", "stop")
    drivers.stopped(pid)
    assert isinstance(expect_failure(world), Busy)
    os.kill(pid, signal.SIGCONT)
    assert drivers.end_of(pid) == SUCCEEDED
    world.more()
    world.recover()
    world.check()


@pytest.mark.full
@pytest.mark.parametrize("count", [2, 4])
def test_runs_at_once(world: World, drivers: Nursery, count: int) -> None:
    pids = [drivers.begin(world.site.settings.home, world.site.dsn, None) for _ in range(count)]
    assert {drivers.end_of(pid) for pid in pids} <= {SUCCEEDED, FAILED}
    world.more()
    world.recover()
    world.check()


@pytest.mark.full
def test_a_backfill_during_a_live_run(world: World, drivers: Nursery) -> None:
    pid = drivers.begin(world.site.settings.home, world.site.dsn, "after the decision", "stop")
    drivers.stopped(pid)
    for day in range(1, 6):
        events = [order(1_000 * day + number) for number in range(20)]
        os.utime(world.land(f"backfill-{day}.jsonl", *events), (day * 86_400, day * 86_400))
    assert isinstance(expect_failure(world), Busy)
    os.kill(pid, signal.SIGCONT)
    assert drivers.end_of(pid) == SUCCEEDED
    world.more()
    world.recover()
    world.check()


@pytest.fixture
def short() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="fs-", dir="/tmp") as folder:
        yield Path(folder)


def test_a_pooler_in_transaction_mode_is_refused(database: str, short: Path) -> None:
    with (
        pooled(database, short) as dsn,
        pytest.raises(lease.PooledSession, match="let FRONTSTAGE_POSTGRES_DSN name the server itself"),
        ledger.writing(dsn, "orders", "test"),
    ):
        pass


def test_a_writer_gives_signs_of_life(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT_S", 0.01)
    beaten = "select beat_at from etl.pipeline where name = 'orders'"
    with ledger.writing(database, "orders", "test") as writer:
        before = writer.ledger._all(beaten)
        for _ in range(500):
            if writer.ledger._all(beaten) != before:
                return
            threading.Event().wait(0.02)
    raise AssertionError("it gave none")


@pytest.mark.full
@pytest.mark.parametrize("point", ["after the decision", "before fact is published", "after fact is published"])
@pytest.mark.parametrize("what", ["optimize", "vacuum"])
def test_somebody_maintains_the_tables_during_a_load(world: World, point: str, what: str) -> None:
    def meddle() -> None:
        for table in ("fact", "quarantine", "backlog"):
            delta = DeltaTable(str(world.site.settings.warehouse / "orders" / table))
            delta.optimize.compact() if what == "optimize" else delta.vacuum(dry_run=False)

    world.run()
    world.more()
    world.site = world.site.meanwhile(point, meddle)
    expect_failure(world)
    world.land("fourth.jsonl", order(31), order(32, customer_id=78))
    world.recover()
    world.check()
