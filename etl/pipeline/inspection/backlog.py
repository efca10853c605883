"""Inspect the backlog and drain it: how many events wait for what, which ones, and batches that empty it.

    time      shed under overload: comes back by itself, oldest first, as far as a batch has room (ADR 65)
    master    lacks a master row: comes back when the row comes, or when the grace is over
    person    accepted, but the audit of its batch failed (etl.pipeline.review.aside)

`drain` runs one batch after the other until no shed event is left, or a batch served none of them: no capacity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

import pyarrow.parquet as pq

from etl.adapters.claims import WAITING, ClaimIndex
from etl.adapters.ledger import BacklogFile, Ledger
from etl.contract.model import Pipeline
from etl.model import Progress
from etl.pipeline.review.masking import MASK
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.plan import BACKLOG, Places
from etl.pipeline.tasks.read import waiting_rows

WaitsFor = Literal["time", "master", "person"]


@dataclass(frozen=True, slots=True)
class Heap:
    """Waiting events of a pipeline, grouped by what they wait for."""

    pipeline: str
    waits_for: WaitsFor
    events: int
    files: int
    oldest: datetime | None

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "oldest": None if self.oldest is None else self.oldest.isoformat()}


def heaps(ledger: Ledger) -> list[Heap]:
    """Waiting events of one pipeline by cause, from the ledger alone."""
    files, asides = ledger.backlog_files(), ledger.asides()
    found = []
    for cause in ("time", "master"):
        mine = [file for file in files if file.cause == cause]
        oldest = min((file.since for file in mine), default=None)
        found.append(Heap(ledger.pipeline, cause, sum(file.waiting for file in mine), len(mine), oldest))
    since = min((record.decided_at for record in asides if record.decided_at), default=None)
    held = sum(record.aside for record in asides)
    found.append(Heap(ledger.pipeline, "person", held, len(asides), since))
    return [heap for heap in found if heap.events]


def events(pipeline: Pipeline, places: Places, ledger: Ledger) -> Iterator[dict[str, Any]]:
    """Waiting events, oldest first, sensitive values masked."""
    index = ClaimIndex(places.claims, ledger.claim_runs())
    for file in ledger.backlog_files():
        yield from _of_file(pipeline, places, index, file)


def _of_file(pipeline: Pipeline, places: Places, index: ClaimIndex, file: BacklogFile) -> Iterator[dict[str, Any]]:
    rows = waiting_rows(places, pipeline.stream, file.path)
    held = index.find(rows[wire.KEY_LO].to_numpy(), rows[wire.KEY_HI].to_numpy())
    still = (held.state == WAITING) & (held.batch == file.batch)
    reasons = pq.read_table(places.tables / BACKLOG / file.path, columns=["reasons"])["reasons"]
    key = pipeline.stream.key
    shown = rows.select([*key, wire.SOURCE, wire.LINE, wire.LANDED, wire.WAITING_SINCE])
    for waits, row, why in zip(still, shown.to_pylist(), reasons.to_pylist(), strict=True):
        if waits:
            yield {
                "key": [MASK if name in pipeline.sensitive else str(row[name]) for name in key],
                "waits_for": file.cause,
                "reasons": why,
                "batch": file.batch,
                "since": row[wire.WAITING_SINCE].isoformat(),
                "landed_at": row[wire.LANDED].isoformat(),
                "file": row[wire.SOURCE],
                "line": row[wire.LINE],
            }


@dataclass(frozen=True, slots=True)
class Drained:
    """The result of a drain."""

    pipeline: str
    batches: int
    before: int  # shed events when it began
    after: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def drain(
    pipeline: str,
    waiting: Callable[[], int],
    run_batch: Callable[[], int | None],
    go_on: Callable[[], bool],
    progress: Progress,
) -> Drained:
    """Run batches until no shed event is left, a batch makes no progress, or `go_on` returns false."""
    before = left = waiting()
    batches = 0
    while left and go_on() and run_batch() is not None:
        batches += 1
        now = waiting()
        progress(f"{pipeline}: {now} shed events are left")
        if now >= left:
            break
        left = now
    return Drained(pipeline, batches, before, left)


def waiting_for_time(ledger: Ledger) -> int:
    """Shed events that have not come back yet."""
    return sum(file.waiting for file in ledger.backlog_files() if file.cause == "time")
