"""The whole protocol against a dictionary: whatever happens in whatever order, every event is in exactly one place.

    land │ replace │ half-write │ change masters │ jump the clock │ die before or after each write │
    roll back ledger or Delta │ release │ run │ drain │
    a failed audit holds a batch │ a person releases or rejects it, or nobody does │ later batches wait or go on │
    maintenance of what has grown old

Hypothesis draws histories and shrinks those that fail. The oracle knows lines, keys and masters; of
batches it knows which events their audits were asked about.
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
from etl.adapters.great_expectations.audit import Audit
from etl.errors import AuditFailed
from etl.pipeline.review.aside import REJECTED
from etl.pipeline.upkeep.maintenance import Keep
from tests.faults import rounds
from tests.faults.audits import STRANGE, audit_by
from tests.faults.test_deaths import POINTS
from tests.faults.world import Oracle, World, steady
from tests.support.backup import Backup, back_up, restore
from tests.support.desk import says
from tests.support.site import Ended, Site, order, quiet

New = list[tuple[int, int, int]]
TABLES = ("fact", "quarantine", "backlog")
LEDGER = ("etl.pipeline", "etl.batch", "etl.input_slice", "etl.claim_run", "etl.backlog_file", "etl.total",
          "etl.release_file", "etl.quarantine_verdict", "etl.archive_removed", "mart.orders",
          "mart.daily_sales")  # fmt: skip
KEYS = st.integers(1, 12)
RELEASES = (None, "after the release is decided", "after the release has landed")
QUANTITIES = st.sampled_from([2, 3, STRANGE, 0])
DEATHS = (*POINTS, "before events are set aside", "before the ledger sets events aside", "after events are set aside",
          "after claims are merged", "after files are put away")  # fmt: skip
WORDS = st.sampled_from(["released", "rejected"])
MAYBE = st.sampled_from((None, "released", "rejected"))
KEEP_WAITING = ('grace = "7d"', 'held = "wait"\ngrace = "3650d"')
CUSTOMERS = st.integers(8, 13)  # of which 11 and above come later, or never
ORDERS = st.tuples(KEYS, CUSTOMERS, QUANTITIES)
SOME = st.lists(ORDERS, min_size=1, max_size=4)
NEW = st.lists(ORDERS, max_size=4)
"""What lands just before something else happens, so that a short history has something to lose."""


class Histories(RuleBasedStateMachine):
    """One world after the other."""

    server: ClassVar[str]
    template: ClassVar[str]
    now: ClassVar[Histories]
    point: ClassVar[str | None] = None
    _numbers: ClassVar[Iterator[int]]

    @initialize(held=st.sampled_from(["go_on", "wait"]), first=SOME, second=NEW)
    def begin(self, held: str, first: New, second: New) -> None:
        self.name = f"history_{next(self._numbers)}"
        _on(self.server, f"create database {self.name} template {self.template}")
        self.home = Path(tempfile.mkdtemp(prefix="frontstage-history-"))
        self.world = World.under(self.home, self.server.replace("/frontstage?", f"/{self.name}?"))
        self.world.site = self.world.site.redeclared(KEEP_WAITING)
        self.world.site.landing.mkdir(parents=True)
        self.mode, self.blocked, self.undone, self.backup_age = "wait", False, False, timedelta(0)
        Histories.now = self
        if held != self.mode:
            self.declare_the_other_way()
        self.files, self.ahead = 0, timedelta(0)
        self.half: tuple[Path, bytes] | None = None
        self.unread: Oracle | None = None
        self.backup: Backup | None = None
        self.drain(first)
        self.back_up(second)

    # ── what others do ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(new=SOME, broken=st.booleans())
    def land(self, new: New, broken: bool = False) -> None:
        if not new:
            return
        self.files += 1
        self.unread = self.world.oracle()
        events: list[Any] = [order(key, customer_id=customer, quantity=quantity) for key, customer, quantity in new]
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

    @rule(new=NEW)
    def run(self, new: New) -> None:
        self.land(new)
        self._run(self.world.site)

    @rule(new=NEW, word=WORDS)
    def drain(self, new: New, word: str = "released") -> None:
        """Run until nothing is left; where a batch holds the line, a person decides."""
        self.land(new)
        self._settled()
        self._unblock(word)

    @rule(reason=st.sampled_from(["quantity_in_range", "malformed_json", REJECTED]), point=st.sampled_from(RELEASES))
    def release(self, reason: str, point: str | None) -> None:
        """Somebody sends refused lines in again without having changed the rule: they are refused again.

        Events that a person had rejected are accepted, and fail their audit again.
        """
        self._settled()
        if self.blocked and reason == REJECTED:
            return  # others have landed that nobody has read
        with contextlib.suppress(Ended):
            self.world.release(reason, point)
        self._settled()

    @rule(new=NEW, point=st.sampled_from(DEATHS))
    def die(self, new: New, point: str) -> None:
        self.land(new)
        site = self.world.site
        with self._dying(point) as dying:
            self._run(dying)
        self.world.site = site.restarted()

    @contextlib.contextmanager
    def _dying(self, point: str | None) -> Iterator[Site]:
        """The site, whose process ends when it reaches a point."""
        site, Histories.point = self.world.site, point
        try:
            with contextlib.suppress(Ended):
                yield replace(site, steps=replace(site.steps, checkpoint=self.reached))
        finally:
            Histories.point = None

    # ── batches whose audit fails ──────────────────────────────────────────────────────────────────────────────

    @rule()
    def declare_the_other_way(self) -> None:
        """Later batches wait for a held one from now on, or go on without it."""
        before, self.mode = self.mode, "go_on" if self.mode == "wait" else "wait"
        self.world.site = self.world.site.redeclared((f'held = "{before}"', f'held = "{self.mode}"'))

    @precondition(lambda self: self.world.held)
    @rule(which=st.integers(0, 3), word=WORDS, point=st.sampled_from((None, *DEATHS)))
    def answer(self, which: int, word: str, point: str | None) -> None:
        """A person decides on a held batch; the run that follows may die."""
        self._settled()
        batch = self._held(which)
        assert says(self.world.site, batch, word)
        self.world.judged(batch, word)
        if point is not None:
            self.die([], point)
        self._settled()
        self.undone = self.blocked

    @precondition(lambda self: self.world.held and self.backup is not None and not self.undone)
    @rule(which=st.integers(0, 3), word=WORDS)
    def answer_in_vain(self, which: int, word: str) -> None:
        """The ledger is restored before any run has seen what a person said."""
        self._settled()
        if not self.undone:
            assert says(self.world.site, self._held(which), word)
            self._restore()

    def _held(self, which: int) -> int:
        """One of the held batches; what is said of others is carried out once the one that holds the line is gone."""
        batches = sorted(self.world.held)[-1 if self.blocked else 0 :]
        assert batches, "a batch holds the line on which somebody has decided before"
        return batches[which % len(batches)]

    # ── maintenance ────────────────────────────────────────────────────────────────────────────────────────────

    @precondition(lambda self: self.files > 0)
    @rule(days=st.sampled_from([0, 2, 8, 40]))
    def grow_old(self, days: int) -> None:
        """Time goes by. A backup that is older than what maintenance keeps is none any more."""
        self._settled()
        by = timedelta(days=days)
        if self.half is None:
            self.ahead += by
            self.world.site = self.world.site.later(self.ahead)
        rounds.grow_old((self.world.site.settings.warehouse, self.world.reports), by)
        self.world.site.restarted()
        self.backup_age += by
        if self.backup_age >= timedelta(days=7):
            self.backup = None

    @rule(
        new=NEW,
        word=MAYBE,
        late=st.integers(11, 13),
        days=st.sampled_from([0, 2, 8, 40]),
        point=st.sampled_from((None, *rounds.POINTS)),
        lost=st.sampled_from((None, "ledger", *TABLES)),
    )
    def maintain(self, new: New, word: str | None, late: int, days: int, point: str | None, lost: str | None) -> None:
        """A round of maintenance, which may die; then ledger or Delta may be put back to before it."""
        self.land(new)
        if word is not None:
            self.drain([], word)
        self.change_masters(late, "Di")  # so that something has settled in the backlog
        if self.files > 0:
            self.grow_old(days)
        before = self._back_up()
        entries = set(self._entries(lost)) if lost in TABLES else set()
        with self._dying(point) as dying:
            dying.steps.maintain("orders", Keep(), rounds.Tools(self.reached), quiet)
        self.world.site.restarted()
        if lost == "ledger" and not self.undone:
            restore(self.world.site.execute, before)
        elif lost in TABLES:
            for entry in set(self._entries(lost)) - entries:
                entry.unlink()
        self.world.site.restarted()
        self._settled()

    # ── backups ────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(new=NEW)
    def back_up(self, new: New) -> None:
        self.land(new)
        self._settled()
        self.backup, self.backup_age = self._back_up(), timedelta(0)

    def _back_up(self) -> Backup:
        return back_up(self.world.site.execute, [table for table in LEDGER if self._has(table)])

    @precondition(lambda self: self.backup is not None and not self.undone)
    @rule(new=NEW, word=MAYBE, point=st.sampled_from((None, *DEATHS)))
    def roll_back_the_ledger(self, new: New, word: str | None, point: str | None) -> None:
        """The ledger is restored, perhaps to before a person decided; the run that completes it may die."""
        self.land(new)
        self._settled()
        if word is not None and self.world.held:
            self.answer(0, word, None)
        if not self.undone:
            self._restore(point)

    def _restore(self, point: str | None = None) -> None:
        assert self.backup is not None, "the precondition says so"
        restore(self.world.site.execute, self.backup)
        self.world.site.restarted()
        if point is not None:
            self.die([], point)
        self._settled()

    @rule(new=NEW, table=st.sampled_from(TABLES), count=st.integers(1, 3))
    def roll_back_delta(self, new: New, table: str, count: int) -> None:
        self.land(new)
        self._settled()
        for entry in rounds.young(self._entries(table)[1:][-count:]):
            entry.unlink()
        self.world.site.restarted()
        self._settled()

    def _entries(self, table: str) -> list[Path]:
        log = self.world.site.settings.warehouse / "orders" / table / "_delta_log"
        return sorted(log.glob("*.json")) if log.is_dir() else []

    # ── what holds ─────────────────────────────────────────────────────────────────────────────────────────────

    def _run(self, site: Site) -> int | None:
        """Run once; a batch that holds the line shows in `blocked`."""
        own, self.unread = self.world.site, None
        self.world.site = site
        try:
            batch = self.world.run()
            self.blocked = False
        except AuditFailed:
            batch, self.blocked = None, True
        finally:
            self.world.site = own
        return batch

    def _settled(self) -> None:
        """Masters must not change between a landing and its booking: the oracle books with what they say at the end."""
        for _ in range(20):
            if self._run(self.world.site) is None:
                break
        else:
            raise AssertionError("there is always something to do")
        if not self.blocked:
            self.undone = False
            self.world.settle()

    def _unblock(self, word: str) -> None:
        """Somebody decides on batches that hold the line, one after the other."""
        while self.blocked:
            self.answer(which=-1, word=word, point=None)

    @classmethod
    def reached(cls, name: str) -> None:
        if name == cls.point:
            raise Ended(name)

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
            self._unblock("released")
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
    monkeypatch.setattr(Audit, "check", audit_by(lambda: Histories.now.world))
    rounds.often(monkeypatch.setattr)
    rounds.reaching(monkeypatch.setattr, Histories.reached)
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
