"""One warehouse for a fault, and all that must hold after it: the oracle is a dictionary that this module fills itself.

    land ─▶ first batch loaded ─▶ masters change ─▶ land ─▶ FAULT ─▶ land ─▶ run until nothing is left ─▶ check

`check` believes nothing the pipeline says of itself: lines are counted when they are written here, events are judged
here by the rules of the shipped pipeline `orders`, and rows of the mart are composed here from the masters' tables.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil

from etl.adapters import landing, postgres
from etl.adapters.great_expectations.audit import Audit
from etl.errors import FrontstageError
from etl.masters.driver_state import driver_state
from etl.masters.worker_cache import worker_cache
from etl.pipeline.review.aside import REJECTED
from etl.pipeline.review.desk import open_desk
from etl.pipeline.review.quarantine import Selection
from etl.pipeline.review.release import Person
from etl.pipeline.tasks.in_process import InProcess
from etl.pipeline.upkeep.maintenance import Keep
from etl.settings import PROJECT
from tests.faults.audits import FAILED
from tests.support.site import Ended, Site, order

SECRET = "s3cr3t-Pass-w0rd"
Event = dict[str, Any]
_ORDERED_AT = datetime(2026, 11, 1, 10, tzinfo=UTC)
_MOVING = ("epoch", "holder", "beat_at", "seconds", "looked")  # what a look at the ledger may change
_ROUNDS = 12


def site_under(home: Path, dsn: str) -> Site:
    """A site for faults: its batches are not cut by a deadline that a busy machine would miss."""
    pipelines = home / "pipelines"
    if not pipelines.exists():
        pipelines.mkdir(parents=True)
        declared = (PROJECT / "warehouse" / "pipelines" / "orders.toml").read_text()
        (pipelines / "orders.toml").write_text(declared.replace('deadline = "30s"', 'deadline = "10h"'))
    return Site.under(home, dsn, InProcess()).changed(pipelines=pipelines)


def steady(replace_attribute: Callable[[Any, str, Any], None] = setattr) -> None:
    """Make cases of this process quick and repeatable.

    Batches pass their audit unseen: Great Expectations takes longer than all the rest of a fault, and has tests of its
    own. No file is put away because a case has taken long.
    """
    replace_attribute(Audit, "check", lambda *_: {"success": True, "expectations": []})
    replace_attribute(Audit, "build_docs", lambda *_: None)
    replace_attribute(landing, "QUIET", timedelta(days=1))


@dataclass(frozen=True)
class Oracle:
    """What the test knew of lines and keys at some moment."""

    lines: int
    duplicates: int
    refused: Counter[str]
    kept: dict[int, Event]
    waiting: set[int]


@dataclass
class World:
    """A site, what landed there, and what must have become of it."""

    site: Site
    lines: int = 0
    duplicates: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    kept: dict[int, Event] = field(default_factory=dict)
    booked: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    held: dict[int, set[int]] = field(default_factory=dict)  # by batch, the keys that wait for a person
    _joined: dict[int, tuple[Any, ...]] = field(default_factory=dict)  # rows as their batch has composed them
    _audits: dict[int, datetime] = field(default_factory=dict)
    _tables: set[str] = field(default_factory=set)

    @classmethod
    def under(cls, home: Path, dsn: str) -> World:
        """A new world. Its DSN has a password that nobody needs and that must turn up nowhere."""
        secret = dsn.replace("postgresql://postgres@", f"postgresql://postgres:{SECRET}@")
        return cls(site_under(home, secret))

    # ── what happens ───────────────────────────────────────────────────────────────────────────────────────────

    def land(self, name: str | bytes, *events: Event | bytes) -> Path:
        """Let a file land, and judge its lines as the declared rules do."""
        for event in events:
            self._judge(event)
        return self.site.land(name, *events)

    def _judge(self, event: Event | bytes) -> None:
        self.lines += 1
        if isinstance(event, bytes):
            self.refused["malformed_json"] += 1
        elif event["quantity"] < 1:
            self.refused["quantity_in_range"] += 1
        elif event["order_id"] not in self.kept:
            self.kept[event["order_id"]] = event
            self.waiting.add(event["order_id"])
        elif self.kept[event["order_id"]] == event:
            self.duplicates += 1
        else:
            self.refused["conflicting_payload"] += 1

    def oracle(self) -> Oracle:
        """What is known now, for `forget_since`."""
        return Oracle(self.lines, self.duplicates, self.refused.copy(), dict(self.kept), set(self.waiting))

    def forget_since(self, known: Oracle) -> None:
        """What landed since then never was."""
        self.lines, self.duplicates, self.refused = known.lines, known.duplicates, known.refused.copy()
        self.kept, self.waiting = dict(known.kept), set(known.waiting)

    def release(self, reason: str, ends_at: str | None = None) -> None:
        """Somebody sends in again all lines that were refused for a reason.

        They will be refused for it again, but for those that a person had rejected: their keys are free.
        """

        def reached(name: str) -> None:
            if name == ends_at:
                raise Ended(name)

        with open_desk(self.site.settings, self.site.dsn, "orders", reached) as desk:
            lines = sorted(desk.quarantine.find(Selection(reason=reason)), key=lambda line: line.id)
            for line in lines:
                if reason == REJECTED:
                    self._judge(json.loads(line.raw))
                else:
                    self.lines += 1
                    self.refused[reason] += 1
            desk.release(Selection(reason=reason), Person("ada", datetime.now(UTC), "again"), patience_s=0)

    def begin(self) -> None:
        """One batch without a fault, so that there is something to lose; then masters change and more lands."""
        good = [order(number, customer_id=1 + number % 10, product_id=1 + number % 7) for number in range(1, 9)]
        self.land("first.jsonl", *good, order(9, customer_id=77), order(10, quantity=-1), b"broken")
        self.run()
        self.settle()
        self._tables = self._all_tables()
        self.site.execute("insert into master.customers values (77, 'Late', 'a', 'n', 'SOUTH', 'm', 'p', 1)")
        self.site.execute("update master.customers set region = 'MOVED' where customer_id = 3")
        self.land(
            "second.jsonl",
            *(order(number, customer_id=1 + number % 10, quantity=number) for number in range(11, 19)),
            good[0], {**good[1], "quantity": 99}, order(20, quantity=0), b"{broken", order(19, customer_id=88),
        )  # fmt: skip

    def more(self) -> None:
        """What lands while nobody runs."""
        self.land("third.jsonl", *(order(number) for number in range(21, 25)), order(11, customer_id=2, quantity=11))

    def run(self) -> int | None:
        """One run as its DAG makes it, with a report."""
        batch = self.site.run()
        if batch is not None:
            self.site.step("report", batch)
        return batch

    def forget(self) -> None:
        """Let this process remember as little as one that has just begun."""
        self.site.restarted()
        worker_cache()._stores.clear()
        worker_cache()._front_stages.clear()
        driver_state()._keepers.clear()

    def recover(self) -> None:
        """What the schedule does after a fault: runs in processes that remember nothing, until nothing is left."""
        self.forget()
        self.site = replace(self.site, steps=replace(self.site.steps, checkpoint=lambda _: None))
        for _ in range(_ROUNDS):
            if self.run() is None:
                break
        else:
            raise AssertionError(f"there was still something to do after {_ROUNDS} runs")
        for (batch,) in self.site.execute("select batch from etl.batch where pipeline = 'orders' order by batch"):
            if not (self.reports / str(batch) / "report.json").exists():
                self.site.step("report", batch)  # Airflow tries the task again that had died
        self.settle()
        self._tables = self._tables or self._all_tables()

    def settle(self) -> None:
        """Book what has all its masters, with what they say now."""
        self.booked |= self._compose(self.waiting)
        self.waiting -= self.booked.keys()

    def audited(self, batch: int, now: datetime, keys: list[int], *, held: bool) -> None:
        """A batch has accepted these events. A person has to decide on them if it is held.

        A batch that was forgotten with its decision is decided again, at another time, and may accept others.
        """
        if self._audits.get(batch) == now:
            return
        self._audits[batch] = now
        self.waiting |= self.held.pop(batch, set())
        assert set(keys) <= self.waiting, f"batch {batch} accepts what was accepted before, or never landed"
        rows = self._compose(set(keys))
        assert rows.keys() == set(keys), f"batch {batch} accepts events without master rows"
        self.waiting -= rows.keys()
        if held:
            self.held[batch] = set(keys)
            self._joined |= rows
        else:
            self.booked |= rows

    def judged(self, batch: int, word: str) -> None:
        """A person has decided on a held batch: its events are facts as they were joined then, or refused."""
        for key in self.held.pop(batch):
            if word == "released":
                self.booked[key] = self._joined[key]
            else:
                del self.kept[key]  # who corrects it sends it again
                self.refused.update([REJECTED, FAILED])

    def _compose(self, keys: set[int]) -> dict[int, tuple[Any, ...]]:
        """Rows of the mart of those events whose masters are there."""
        customers = self._rows("master.customers", "customer_id", "name", "nation", "region", "market_segment")
        products = self._rows("master.products", "product_id", "name", "brand", "category")
        rows = {}
        for number in sorted(keys):
            event = self.kept[number]
            customer, product = customers.get(event["customer_id"]), products.get(event["product_id"])
            if customer and product:
                price = Decimal(str(event["unit_price"]))
                rows[number] = (
                    number, _ORDERED_AT, _ORDERED_AT.date(), event["customer_id"], *customer, event["product_id"],
                    *product, event["quantity"], price, price * event["quantity"],
                )  # fmt: skip
        return rows

    def _rows(self, table: str, *columns: str) -> dict[int, tuple[Any, ...]]:
        return {row[0]: row[1:] for row in self.site.execute(f"select {', '.join(columns)} from {table}")}

    # ── what must hold ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def reports(self) -> Path:
        return self.site.settings.reports / "orders"

    def check(self) -> None:
        """Everything, after any fault."""
        self._check_places()
        self._check_content()
        self._check_ledger()
        before = self.digest()
        assert self.run() is None, "a second rerun found something to do"
        after = self.digest()
        assert {part: (before[part], now) for part, now in after.items() if now != before[part]} == {}
        self._check_leftovers()

    def _check_places(self) -> None:
        counted = self.site.inventory()
        assert counted.faults == []
        assert counted.raw_lines == self.lines, "lines that this test wrote"
        assert counted.held == sum(map(len, self.held.values())), "events that wait for a person"
        placed = counted.fact + counted.quarantine + counted.backlog_open + counted.held + counted.duplicates
        assert placed == self.lines
        assert counted.duplicates == self.duplicates
        facts = self.site.rows("fact")["order_id"].to_pylist()
        aside = {key for keys in self.held.values() for key in keys}
        waits = set(self.site.rows("backlog")["order_id"].to_pylist()) & self.kept.keys() - set(facts) - aside
        assert len(facts) == len(set(facts)), "an event is in the fact table twice"
        assert (set(facts), waits) == (set(self.booked), self.waiting), "an event is in the wrong place"
        reasons = self.site.rows("quarantine")["reasons"].to_pylist()
        assert Counter(reason for row in reasons for reason in row) == self.refused

    def _check_content(self) -> None:
        mart = self.site.execute("select * from mart.orders order by order_id")
        assert [row[: len(self.booked[row[0]])] for row in mart] == [self.booked[key] for key in sorted(self.booked)]
        sums: dict[tuple[date, str, str, str], tuple[int, int, Decimal]] = {}
        for row in self.booked.values():
            group = (row[2], row[6], row[7], row[11])
            count, quantity, amount = sums.get(group, (0, 0, Decimal(0)))
            sums[group] = (count + 1, quantity + row[12], amount + row[14])
        found = self.site.execute("select * from mart.daily_sales")
        assert {row[:4]: row[4:7] for row in found} == sums
        projected = {row[0]: row for row in self._facts()}
        assert projected == {key: (key, row[4], row[6], row[9], row[12], row[14]) for key, row in self.booked.items()}

    def _facts(self) -> list[tuple[Any, ...]]:
        """Facts with what their dimension rows say."""
        customers = {row["customer_key"]: row for row in self.site.rows("dim_customer").to_pylist()}
        products = {row["product_key"]: row for row in self.site.rows("dim_product").to_pylist()}
        return [
            (row["order_id"], customers[row["customer_key"]]["name"], customers[row["customer_key"]]["region"],
             products[row["product_key"]]["name"], row["quantity"], row["amount"])
            for row in self.site.rows("fact").to_pylist()
        ]  # fmt: skip

    def _check_ledger(self) -> None:
        rows = self.site.execute("select batch, state from etl.batch where pipeline = 'orders' order by batch")
        assert rows == [(number, "loaded") for number in range(1, len(rows) + 1)]
        reports = sorted(int(path.parent.name) for path in self.reports.glob("*/report.json"))
        assert reports == [batch for batch, _ in rows], "one report per batch"
        for batch in reports:
            assert json.loads((self.reports / str(batch) / "report.json").read_text())["outcome"] == "loaded"

    def digest(self) -> dict[str, Any]:
        """All that a run could change: ledger, mart, tables, files of the landing folder and the archive."""
        parts: dict[str, Any] = {}
        for table in sorted(self._all_tables()):
            rows = [json.loads(row) for (row,) in self.site.execute(f"select to_jsonb(t)::text from {table} t")]
            parts[table] = sorted(
                json.dumps({name: value for name, value in row.items() if name not in _MOVING}, sort_keys=True)
                for row in rows
            )
        tables = ("fact", "quarantine", "backlog", "dim_customer", "dim_product")
        parts["versions"] = {table: self.site.table(table).version() for table in tables}
        folders = (self.site.landing, self.site.settings.archive, self.reports)
        parts["files"] = sorted(str(path) for folder in folders for path in folder.rglob("*"))
        return parts

    def _all_tables(self) -> set[str]:
        query = "select table_schema || '.' || table_name from information_schema.tables where table_schema in %s"
        return {name for (name,) in self.site.execute(query, ("etl", "mart", "master"))}

    def _check_leftovers(self) -> None:
        """No process, lock, stage table, temporary file, and no secret."""
        self.site.close()
        locks = "select pid from pg_locks where locktype = 'advisory' and database = (select oid from pg_database "
        assert self.site.execute(locks + "where datname = current_database())") == []
        assert self._all_tables() == self._tables, "a stage table was left"
        with (self.site.settings.warehouse / "orders" / ".writer").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert _processes() == [], "a process was left"
        files = [path for path in self.site.settings.var.rglob("*") if path.is_file()]
        left = [path for path in files if path.name.endswith((".tmp", ".new", ".building", ".part"))]
        assert left == [], "a temporary file was left"
        for path in files:
            assert SECRET.encode() not in path.read_bytes(), f"a secret is in {path}"
        for table in self._all_tables():
            assert not self.site.execute(f"select from {table} t where to_jsonb(t)::text like %s", f"%{SECRET}%")

    def check_garbage(self) -> None:
        """Files of tries that were not decided go with the next maintenance."""
        old = (datetime.now(UTC) - timedelta(days=3)).timestamp()
        for path in self.site.settings.warehouse.rglob("*part-*.parquet"):
            os.utime(path, (old, old))
        self.site.steps.maintain("orders", Keep(), None, lambda _: None)
        for table in ("fact", "quarantine", "backlog"):
            named = {uri.rpartition("/")[2] for uri in self.site.table(table).file_uris()}
            folder = self.site.settings.warehouse / "orders" / table
            assert {path.name for path in folder.glob("*.parquet")} == named, f"garbage in {table}"


def _processes() -> list[str]:
    """Command lines of all that was started below this test, but for what serves many tests and programs for faults."""
    found, serving = [], ("postgres", "resource_tracker", "airflow_python")
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            line = " ".join(process.cmdline())
            if line and not any(one in line for one in serving) and not _for_faults(process, line):
                found.append(line)
    return found


def _for_faults(process: psutil.Process, line: str) -> bool:
    """Whether this is the nursery, not a driver of it, or the program that has a Spark, with all of that."""
    if "tests.faults.drivers" in line:
        return process.ppid() == os.getpid()
    return any("tests.faults.spark_driver" in " ".join(one.cmdline()) for one in (process, *process.parents()))


def expect_failure(world: World, *kinds: type[BaseException]) -> BaseException | None:
    """Run once, into the fault; gives what was raised. Only errors of ours may come out of a step, or `kinds`."""
    try:
        world.run()
    except (FrontstageError, *kinds) as error:
        return error
    return None


def terminate_connections(world: World) -> None:
    """What a fail-over looks like to everybody who is connected."""
    with postgres.connect(world.site.dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
