"""One cell: waves come at a rate, batches serve what they can, then it is quiet.

    wave 0        wave 1        wave 2 …  wave 9        quiet
    ├─ batch ─┤   ├─ batch ─┤             ├─ batch ─┤   ├─ batch ─┤├─ batch ─┤ … until nothing waits, or time is up

Time is virtual where nothing happens: when a batch is done before the next wave comes, the clock is moved on. A batch
that takes longer than a deadline finds more waves landed.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bench.overload.site import Runs, Site, StoreName, VirtualClock
from etl.adapters.ledger import BatchRecord
from etl.contract.model import Shedding
from etl.settings import ReadRule

Policy = Literal["best-first", "position", "keep", "none"]
POLICIES: dict[Policy, tuple[Shedding, ReadRule]] = {
    "best-first": ("consider", "best_first"),
    "position": ("consider", "position"),
    "keep": ("keep", "best_first"),
    "none": ("none", "best_first"),
}
WAVES = 10


@dataclass(frozen=True, slots=True)
class Cell:
    """What is varied."""

    store: StoreName
    policy: Policy
    times: int  # arrivals, in multiples of what a batch serves

    @property
    def name(self) -> str:
        return f"{self.store}_{self.policy}_{self.times}".replace("-", "_")


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch did."""

    number: int
    seconds: float
    began_s: float  # on the virtual clock
    lines: int
    accepted: int
    shed: int
    resolved: int
    read: int  # keys or pages
    hits: int
    fresh_p50_s: float | None
    fresh_p95_s: float | None
    waiting: int
    rss_mib: float


def measure(site: Site, cell: Cell, w: int, quiet_s: float, most_s: float, now: Callable[[], Any]) -> dict[str, Any]:
    """Run a cell. `quiet_s`: real seconds for draining; `most_s`: after which no wave is waited for."""
    clock = VirtualClock(now())
    runs = site.copy(cell.name, *POLICIES[cell.policy], clock)
    began = time.perf_counter()
    busy, overtaken = _load(runs, site.deadline_s, cell.times * w, began + most_s)
    loaded_s = clock.seconds()
    left_behind = runs.waiting() + _unread(runs, busy)
    drained = [] if overtaken else _drain(runs, site.deadline_s, len(busy), time.perf_counter() + quiet_s)
    open_now = runs.waiting() + _unread(runs, [*busy, *drained])
    row = {
        **asdict(cell),
        "w": w,
        "deadline_s": site.deadline_s,
        "waves": WAVES if not overtaken else None,
        "landed": runs.landed,
        "served": sum(one.accepted for one in busy),
        "served_per_s": round(sum(one.accepted for one in busy) / loaded_s, 1),
        "batches": [asdict(one) for one in busy],
        "slowest_over_deadline": round(max(one.seconds for one in busy) / site.deadline_s, 3),
        "left_after_load": left_behind,
        "drain": _drain_figures(drained, left_behind, open_now, clock.seconds() - loaded_s),
        "rss_mib": max(one.rss_mib for one in busy),
    }
    runs.close()
    return row


def _load(runs: Runs, deadline_s: float, events: int, stop: float) -> tuple[list[Batch], bool]:
    """Ten waves and the batches that meet them; true when they could not be met in the time allowed."""
    done: list[Batch] = []
    landed = 0
    while landed < WAVES or len(done) < WAVES:
        if time.perf_counter() > stop:
            return done, True
        runs.clock.until(min(landed, WAVES) * deadline_s if _idle(landed, done, runs, deadline_s) else 0.0)
        while landed < WAVES and landed * deadline_s <= runs.clock.seconds():
            runs.land(landed, events, at_s=landed * deadline_s)
            landed += 1
        batch = _batch(runs, len(done))
        if batch is not None:
            done.append(batch)
        elif landed < WAVES:
            runs.clock.until(landed * deadline_s)  # one batch has served several waves
        else:
            break
    return done, False


def _idle(landed: int, done: list[Batch], runs: Runs, deadline_s: float) -> bool:
    """Whether the next batch belongs to the next wave: everybody gets as many batches as there are waves."""
    return landed <= len(done) and landed < WAVES and runs.clock.seconds() < landed * deadline_s


def _drain(runs: Runs, deadline_s: float, number: int, stop: float) -> list[Batch]:
    """Nothing comes any more: batches follow each other until nothing waits."""
    runs.clock.until(WAVES * deadline_s)
    done: list[Batch] = []
    while time.perf_counter() < stop:
        batch = _batch(runs, number + len(done))
        if batch is None:
            break
        done.append(batch)
    return done


def _batch(runs: Runs, number: int) -> Batch | None:
    began, began_s = time.perf_counter(), runs.clock.seconds()
    record = runs.batch()
    if record is None:
        return None
    counts, fresh, (read, hits) = record.counts, record.freshness or {}, _joined(record)
    return Batch(
        number, round(time.perf_counter() - began, 3), round(began_s, 3), counts.lines, counts.accepted, counts.shed,
        counts.backlog_resolved, read, hits, fresh.get("p50"), fresh.get("p95"), runs.waiting(), _rss_mib(),
    )  # fmt: skip


def _joined(record: BatchRecord) -> tuple[int, int]:
    joins = record.joins.values()
    return sum(one["pages"] or one["lookups"] for one in joins), sum(one.hits for one in record.counts.joins.values())


def _unread(runs: Runs, done: list[Batch]) -> int:
    """Events that have landed and that no batch has read."""
    return runs.landed - sum(one.lines for one in done)


def _drain_figures(drained: list[Batch], before: int, after: int, took_s: float) -> dict[str, Any]:
    """How long it took until nothing waited; an estimate by its pace where time was up before."""
    if not before:
        return {"seconds": 0.0, "left": 0, "estimated": False}
    gone = before - after
    if not drained or gone <= 0:
        return {"seconds": None, "left": after, "estimated": False}
    return {"seconds": round(took_s * before / gone, 1), "left": after, "estimated": after > 0}


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 2**20, 1)


def slope(values: list[float]) -> float:
    """What a value gains per batch, by a line through them."""
    return float(np.polyfit(np.arange(len(values)), values, 1)[0]) if len(values) > 1 else 0.0
