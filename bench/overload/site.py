"""One Postgres with masters and a warm pipeline; every cell of the benchmark is a copy of that under another name.

warm     fast, to fill the front stage; then at the pace of the store, to learn what events and reads cost
copy     file, front stage and the costs in the ledger, under a new name: all cells begin with the same experience
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from bench.overload.events import Customers, lines
from bench.overload.slow import Pace, Slowed
from etl.adapters import ledger, postgres
from etl.adapters.ledger import BatchRecord, Writer
from etl.contract.model import Shedding
from etl.model import Progress
from etl.pipeline.input import deadline
from etl.pipeline.microbatch import MicroBatch
from etl.pipeline.prepare import Prepared
from etl.pipeline.process_state import process_state
from etl.pipeline.steps import Steps
from etl.pipeline.tasks.in_process import InProcess
from etl.settings import ReadRule, Settings

StoreName = Literal["postgres", "pages"]
PACES: dict[StoreName, Pace] = {"postgres": Pace(key_s=2e-3), "pages": Pace(page_s=8e-3)}
TACTICS = {"postgres": "cinlj", "pages": "chybridjoin"}
CUSTOMERS, SKEW, BUDGET_BYTES = 1_000_000, 1.0, 6 * 2**20
_FAST, _FAST_EVENTS = 4, 100_000
_SMALL, _SMALL_EVENTS, _LARGE, _LARGE_EVENTS = 2, 500, 4, 6_000
_FILE = """\
name = "{name}"
deadline = "{deadline:g}s"
shedding = "{shedding}"
grace = "7d"
[stream]
source = {{ landing = "landing/{name}" }}
key = ["order_id"]
event_time = "ordered_at"
[stream.fields]
order_id = "bigint"
customer_id = "bigint"
quantity = {{ type = "int", min = 1 }}
ordered_at = "timestamp"
[master.customer]
table = "postgres:master.bench_customers"
on = {{ customer_id = "customer_id" }}
columns = ["name", "region"]
history = "none"
[mart.{name}_orders.columns]
order_id = "order_id"
region = "customer.region"
quantity = "quantity"
"""
_SEED = """
create table if not exists master.bench_customers
(customer_id bigint primary key, name text not null, region text not null);
insert into master.bench_customers
select id, 'customer ' || id, 'region ' || id %% 25 from generate_series(1, %s) as id on conflict do nothing;
insert into master.version (table_name) values ('master.bench_customers') on conflict do nothing
"""


class PacedSteps(Steps):
    """The steps, with masters that answer at a pace."""

    __slots__ = ("pace",)
    pace: Pace

    @classmethod
    def at(cls, pace: Pace, settings: Settings, dsn: str, clock: Callable[[], datetime]) -> PacedSteps:
        steps = cls(settings, dsn, InProcess(slots=1), clock)
        object.__setattr__(steps, "pace", pace)
        return steps

    def _batch(self, prepared: Prepared, writer: Writer, progress: Progress) -> MicroBatch:
        engine = replace(prepared.engine, masters=Slowed(prepared.engine.masters, self.pace))
        return super()._batch(replace(prepared, engine=engine), writer, progress)


@dataclass(slots=True)
class VirtualClock:
    """Time as the pipeline sees it: goes by itself, and can be moved on."""

    start: datetime
    skipped_s: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    def seconds(self) -> float:
        return time.perf_counter() - self.began + self.skipped_s

    def __call__(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds())

    def until(self, seconds: float) -> None:
        """Skip what is left until then."""
        self.skipped_s += max(0.0, seconds - self.seconds())


@dataclass(frozen=True, slots=True)
class Site:
    """One store's masters, and the pipelines over them."""

    store: StoreName
    settings: Settings
    dsn: str = field(repr=False)
    customers: Customers
    deadline_s: float

    @classmethod
    def of(cls, store: StoreName, own: Settings, dsn: str, folder: Path, deadline_s: float) -> Site:
        places = {name: folder / name for name in ("archive", "warehouse", "master_pages", "pipelines")}
        settings = own.model_copy(
            update={
                "var": folder,
                "tactic": TACTICS[store],
                "master_store": "direct" if store == "postgres" else "pages",
                "budget_bytes": BUDGET_BYTES,
                **places,
            }
        )
        return cls(store, settings, dsn, Customers(CUSTOMERS, SKEW), deadline_s)

    def prepare(self) -> None:
        shutil.rmtree(self.settings.var, ignore_errors=True)
        self.settings.pipelines.mkdir(parents=True)
        postgres.migrate(self.dsn)
        with postgres.connect(self.dsn) as connection, connection.cursor() as cursor:
            cursor.execute(_SEED, (CUSTOMERS,))
            connection.commit()

    def pipeline(self, name: str, shedding: Shedding, rule: ReadRule, clock: VirtualClock, pace: Pace) -> Runs:
        """A pipeline of this name, declared anew."""
        text = _FILE.format(name=name, deadline=self.deadline_s, shedding=shedding)
        (self.settings.pipelines / f"{name}.toml").write_text(text)
        settings = self.settings.model_copy(update={"read_rule": rule})
        landing = self.settings.var / "landing" / name
        landing.mkdir(parents=True, exist_ok=True)
        return Runs(self, name, landing, PacedSteps.at(pace, settings, self.dsn, clock), clock)

    def warm(self, clock: VirtualClock, say: Progress) -> None:
        """Run the pipeline that all others are copies of."""
        fast, paced = (self.pipeline("warm", "none", "best_first", clock, pace) for pace in (Pace(), PACES[self.store]))
        sizes = [_FAST_EVENTS] * _FAST + [_SMALL_EVENTS] * _SMALL + [_LARGE_EVENTS] * _LARGE
        for wave, events in enumerate(sizes):
            runs = fast if wave < _FAST else paced
            runs.land(-1 - wave, events, first_id=wave * _FAST_EVENTS)
            record = runs.batch()
            assert record is not None, "a wave that has landed makes a batch"
            say(f"{self.store}: warm-up, {events:,} events in {sum(record.seconds.values()):.2f} s")

    def capacity(self) -> int:
        """w, as a pipeline with this experience plans."""
        with ledger.reading(self.dsn, "warm") as book:
            costs = deadline.observed(deadline.past(book.history(_SMALL + _LARGE)))
        assert costs is not None, "the warm-up is over"
        return deadline.control(costs, 0, 0, timedelta(seconds=self.deadline_s), "consider", 1).capacity or 1

    def copy(self, name: str, shedding: Shedding, rule: ReadRule, clock: VirtualClock) -> Runs:
        """A pipeline with the experience of the warm one, and nothing else of it."""
        runs = self.pipeline(name, shedding, rule, clock, PACES[self.store])
        process_state().finish_learning("warm")
        fronts = self.settings.var / "front-stage"
        shutil.copytree(fronts / "warm", fronts / name)
        with postgres.connect(self.dsn) as connection, connection.cursor() as cursor:
            values = {"name": name, "keep": _SMALL + _LARGE}
            cursor.execute("insert into etl.pipeline (name, declared) values (%(name)s, '{}')", values)
            cursor.execute(
                "insert into etl.batch (pipeline, batch, run_id, state, started_at, decided_at, loaded_at, decision, "
                "counts, master_versions, seconds, joins, control) select %(name)s, batch, run_id, state, started_at, "
                "decided_at, loaded_at, decision, counts, master_versions, seconds, joins, control from etl.batch "
                "where pipeline = 'warm' order by batch desc limit %(keep)s",
                values,
            )
            connection.commit()
        return runs


@dataclass(slots=True)
class Runs:
    """One pipeline: waves that land, and batches."""

    site: Site
    name: str
    landing: Path
    steps: PacedSteps
    clock: VirtualClock
    landed: int = 0

    def land(self, wave: int, events: int, *, first_id: int | None = None, at_s: float | None = None) -> None:
        """Let a wave land, at a virtual time."""
        first = self.landed if first_id is None else first_id
        path = self.landing / f"{wave + 100:04}.jsonl"
        path.write_bytes(lines(self.site.customers.draw(events, wave + 1000), first + 1))
        at = self.clock() if at_s is None else self.clock.start + timedelta(seconds=at_s)
        os.utime(path, (at.timestamp(), at.timestamp()))
        self.landed += events

    def batch(self) -> BatchRecord | None:
        """One micro-batch; None when there is nothing to do."""
        done = self.steps.run("micro_batch", self.name, f"bench-{self.name}", None, None, _quiet)
        if done["batch"] is None:
            return None
        with ledger.reading(self.site.dsn, self.name) as book:
            return book.get(done["batch"])

    def waiting(self) -> int:
        """Events in the backlog."""
        with ledger.reading(self.site.dsn, self.name) as book:
            return book.totals().get("backlog_open", 0)

    def close(self) -> None:
        """Remove what the pipeline has written; its figures are taken."""
        process_state().finish_learning(self.name)
        own = self.site.settings
        for folder in (self.landing, own.warehouse / self.name, own.archive / self.name):
            shutil.rmtree(folder, ignore_errors=True)


def _quiet(_: str) -> None:
    """Progress that nobody reads."""
