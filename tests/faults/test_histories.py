"""The whole protocol against a dictionary: whatever happens in whatever order, every event is in exactly one place.

    land │ replace │ half-write │ change masters │ jump the clock │ die before or after each write │
    roll back ledger or Delta │ release │ run │ drain

Hypothesis draws histories and shrinks those that fail. The oracle knows lines, keys and masters, nothing of batches.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from etl.adapters import postgres
from tests.faults.test_deaths import POINTS
from tests.faults.world import Oracle, World, steady
from tests.support.backup import Backup, back_up, restore
from tests.support.site import Ended, order

TABLES = ("fact", "quarantine", "backlog")
LEDGER = ("etl.pipeline", "etl.batch", "etl.input_slice", "etl.claim_run", "etl.backlog_file", "etl.total",
          "etl.release_file", "etl.quarantine_verdict", "mart.orders", "mart.daily_sales")  # fmt: skip
KEYS = st.integers(1, 12)
RELEASES = (None, "after the release is decided", "after the release has landed")
CUSTOMERS = st.integers(8, 14)  # of which 11 and above come later, or never


class Histories(RuleBasedStateMachine):
    """One world after the other."""

    server: ClassVar[str]
    template: ClassVar[str]
    _numbers: ClassVar[Iterator[int]]

    @initialize()
    def begin(self) -> None:
        self.name = f"history_{next(self._numbers)}"
        _on(self.server, f"create database {self.name} template {self.template}")
        self.home = Path(tempfile.mkdtemp(prefix="frontstage-history-"))
        self.world = World.under(self.home, self.server.replace("/frontstage?", f"/{self.name}?"))
        self.world.site.landing.mkdir(parents=True)
        self.files, self.ahead = 0, timedelta(0)
        self.half: tuple[Path, bytes] | None = None
        self.unread: Oracle | None = None
        self.backup: Backup | None = None

    # ── what others do ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(keys=st.lists(st.tuples(KEYS, CUSTOMERS, st.integers(0, 2)), min_size=1, max_size=4), broken=st.booleans())
    def land(self, keys: list[tuple[int, int, int]], broken: bool) -> None:
        self.files += 1
        self.unread = self.world.oracle()
        events: list[Any] = [order(key, customer_id=customer, quantity=quantity) for key, customer, quantity in keys]
        self.world.land(f"f{self.files:04d}.jsonl", *events, *([b"{broken"] if broken else []))

    @precondition(lambda self: self.unread is not None)
    @rule(key=KEYS, customer=CUSTOMERS)
    def replace(self, key: int, customer: int) -> None:
        """The newest file, which nobody has read, gets another content: the old one never was."""
        assert self.unread is not None, "the precondition says so"
        self.world.forget_since(self.unread)
        draft = self.world.land("draft", order(key, customer_id=customer), b"{replaced")
        draft.rename(draft.with_name(f"f{self.files:04d}.jsonl"))

    @precondition(lambda self: self.half is None and self.ahead <= timedelta(0))  # else it is quiet, so complete
    @rule(key=KEYS)
    def half_write(self, key: int) -> None:
        self.files += 1
        line = b'{"order_id": %d, "customer_id": 8, "product_id": 1, "quantity": 2, ' % key
        rest = b'"unit_price": 9.99, "ordered_at": "2026-11-01T10:00:00.000Z"}\n'
        path = self.world.site.landing / f"f{self.files:04d}.jsonl"
        path.write_bytes(line)
        self.half = (path, rest)
        self.half_event = order(key, customer_id=8)

    @precondition(lambda self: self.half is not None)
    @rule()
    def write_the_rest(self) -> None:
        assert self.half is not None, "the precondition says so"
        path, rest = self.half
        with path.open("ab") as file:
            file.write(rest)
        self.world._judge(self.half_event)
        self.half = self.unread = None

    @rule(customer=CUSTOMERS, name=st.sampled_from(["Ann", "Bob", "Cy"]))
    def change_masters(self, customer: int, name: str) -> None:
        self._settled()
        self.world.site.execute(
            "insert into master.customers values (%s, %s, 'a', 'n', 'R', 'm', 'p', 1) "
            "on conflict (customer_id) do update set name = excluded.name",
            customer, name,
        )  # fmt: skip

    @rule(minutes=st.sampled_from([-60, -5, 2, 60]))
    def jump_the_clock(self, minutes: int) -> None:
        if self.half is None:  # a quiet file is complete, and this one is not
            self.ahead += timedelta(minutes=minutes)
            self.world.site = self.world.site.later(self.ahead)

    # ── what runs ──────────────────────────────────────────────────────────────────────────────────────────────

    @rule()
    def run(self) -> None:
        self.unread = None
        self.world.run()

    @rule()
    def drain(self) -> None:
        self._settled()

    @rule(reason=st.sampled_from(["quantity_in_range", "malformed_json"]), point=st.sampled_from(RELEASES))
    def release(self, reason: str, point: str | None) -> None:
        """Somebody sends refused lines in again without having changed the rule: they are refused again."""
        self._settled()
        with contextlib.suppress(Ended):
            self.world.release(reason, point)
        self._settled()

    @rule(point=st.sampled_from(POINTS))
    def die(self, point: str) -> None:
        self.unread = None
        site = self.world.site
        self.world.site = site.ending(point)
        with contextlib.suppress(Ended):
            self.world.run()
        self.world.site = replace(site.restarted(), steps=replace(site.steps, checkpoint=lambda _: None))

    # ── backups ────────────────────────────────────────────────────────────────────────────────────────────────

    @rule()
    def back_up(self) -> None:
        self._settled()
        self.backup = back_up(self.world.site.execute, [table for table in LEDGER if self._has(table)])

    @precondition(lambda self: self.backup is not None)
    @rule(point=st.sampled_from((None, *POINTS)))
    def roll_back_the_ledger(self, point: str | None) -> None:
        """The ledger is restored; the run that completes it may die."""
        self._settled()
        assert self.backup is not None, "the precondition says so"
        restore(self.world.site.execute, self.backup)
        self.world.site.restarted()
        if point is not None:
            self.die(point)
        self._settled()

    @rule(table=st.sampled_from(TABLES), count=st.integers(1, 3))
    def roll_back_delta(self, table: str, count: int) -> None:
        self._settled()
        log = self.world.site.settings.warehouse / "orders" / table / "_delta_log"
        entries = sorted(log.glob("*.json"))[1:] if log.is_dir() else []
        for entry in entries[-count:]:
            entry.unlink()
        self.world.site.restarted()
        self._settled()

    # ── what holds ─────────────────────────────────────────────────────────────────────────────────────────────

    def _settled(self) -> None:
        """Masters must not change between a landing and its booking: the oracle books with what they say at the end."""
        self.unread = None
        for _ in range(20):
            if self.world.run() is None:
                break
        self.world.settle()

    def _has(self, table: str) -> bool:
        return self.world.site.execute("select to_regclass(%s) is not null", table) == [(True,)]

    @invariant()
    def keys_are_unique(self) -> None:
        if hasattr(self, "world") and self._has("mart.orders"):
            assert self.world.site.execute("select count(*) - count(distinct order_id) from mart.orders") == [(0,)]

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            if self.half is not None:
                self.write_the_rest()
            self._settled()
            if self.world.lines:
                self.world._tables = self.world._all_tables()
                self.world.recover()
                self.world.check()
        finally:
            self.world.site.close()
            _on(self.server, f"drop database {self.name} with (force)")
            shutil.rmtree(self.home, ignore_errors=True)


def _on(server: str, command: str) -> None:
    with postgres.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(command)


@pytest.fixture
def machine(postgres_server: str, seeded: str, monkeypatch: pytest.MonkeyPatch) -> type[Histories]:
    import itertools

    steady(monkeypatch.setattr)
    Histories.server, Histories.template, Histories._numbers = postgres_server, seeded, itertools.count(1)
    return Histories


def _try(machine: type[Histories], histories: int, steps: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine,
        settings=settings(
            max_examples=histories, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )  # fmt: skip


def test_a_few_histories(machine: type[Histories]) -> None:
    _try(machine, 3, 8)


@pytest.mark.full
@pytest.mark.timeout(2_400)
def test_two_hundred_histories(machine: type[Histories]) -> None:
    _try(machine, 200, 14)
