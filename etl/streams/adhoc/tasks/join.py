"""The task of ad-hoc queries: new results of all of them in a batch, from mapped segments.

    names of new segments ── map ── buckets of this task's shares ── shared joins ─┬─ rows ──▶ a file per query
                                                                                  └─ partial aggregates ──▶ the driver

Queries are grouped by the edge of their last join: its two streams are partitioned by the join attribute, every row to
one task; streams that are joined before it are replicated (ADR 44, 86). A query without new results costs nothing here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from etl.correlate.adhoc.plan import Plan
from etl.correlate.adhoc.query.model import Edge
from etl.correlate.adhoc.run.engine import AdhocJoin
from etl.correlate.adhoc.run.joins.bucket import Bucket
from etl.pipeline.tasks.wire import Message
from etl.streams.adhoc.state import LiveSegment
from etl.streams.adhoc.tasks.buckets import EVERYTHING, BucketCache, Share, by_batch
from etl.streams.adhoc.tasks.plan import QueriesPlan
from etl.streams.adhoc.tasks.results import TaskResults
from etl.streams.adhoc.version import LastJoin, Version, open_version, streams_for_queries
from etl.streams.tasks import wire
from etl.streams.tasks.plan import BatchPlan

EngineKey = tuple[str, Edge, int, int]  # root of the store, last join, share, number of shares


@dataclass
class _Engine:
    version: str
    join: AdhocJoin


@dataclass
class QueryWorker:
    """State of a worker between batches: buckets, and joins over them."""

    cache: BucketCache = field(default_factory=BucketCache)
    engines: dict[EngineKey, _Engine] = field(default_factory=dict)

    def clear(self) -> None:
        self.cache = BucketCache()
        self.engines.clear()


_WORKER = QueryWorker()


def query_worker() -> QueryWorker:
    """The state of this process."""
    return _WORKER


def join_queries(plan: BatchPlan, task: int, messages: list[Message]) -> Iterator[Message]:
    """Run all queries on the key shares of one task."""
    if plan.queries is None or not messages:
        return
    began = time.perf_counter()
    new = [LiveSegment(*one) for message in messages for one in message.json()]
    run = _Run(plan, plan.queries, new)
    results = TaskResults(plan, run.version, task)
    joins = 0
    for share in plan.queries.shares_of(task, plan.tasks):
        for one in run.version.last_joins.values():
            joins += run.results(one, share, results)
    yield from results.written()
    yield wire.result("queries", {"joins": joins, "seconds": time.perf_counter() - began, **run.sizes()})


class _Run:
    """One batch in one task."""

    def __init__(self, plan: BatchPlan, queries: QueriesPlan, new: list[LiveSegment]) -> None:
        self._plan, self._queries = plan, queries
        self._streams = {one.name: one for one in plan.declared_streams}
        self.version: Version = open_version(plan.places.store, queries.version, plan.declared_streams)
        self._columns = self.version.columns
        self._segments = by_batch((*queries.segments, *new))
        self._came = {one.stream for one in new}
        root = plan.places.store.root
        _WORKER.cache.retain(root, {one.number for one in (*queries.segments, *new)})
        for key in [key for key in _WORKER.engines if key[0] == root and key[1] not in self.version.last_joins]:
            del _WORKER.engines[key]

    def results(self, one: LastJoin, share: int, results: TaskResults) -> int:
        """New results of the queries with this last join; returns how many combinations of buckets were joined."""
        if not one.streams & self._came:
            return 0
        engine = self._engine(one, share)
        engine.rows_most = self._queries.rows_most
        engine.hold(self._plan.batch, self._buckets(one, share))
        found = engine.results()
        for name, rows in found.rows.items():
            results.add_rows(name, rows)
        for name in found.too_many:
            results.give_up(name)
        for name, partial in found.partials.items():
            results.add_partial(name, partial)
        return found.joins

    def _engine(self, one: LastJoin, share: int) -> AdhocJoin:
        key = (self._plan.places.store.root, one.edge, share, self._queries.shares)
        known = _WORKER.engines.get(key)
        if known is None:
            join = AdhocJoin(streams_for_queries(self._plan.declared_streams), first_slot=self._plan.batch)
            known = _WORKER.engines[key] = _Engine("", join)
        if known.version != self._queries.version:
            plan = Plan({name: self.version.plan.choices[name] for name in one.running})
            known.join.adopt(self._plan.batch, one.running, plan)
            known.version = self._queries.version
        return known.join

    def _buckets(self, one: LastJoin, share: int) -> Iterator[Bucket]:
        """The buckets for the queries of a last join: not older than the first query, and within its windows."""
        first, shares, edge = self._queries.first_slot, self._queries.shares, one.edge
        for stream in sorted(one.streams):
            mine = Share(edge.end(stream).columns, share, shares) if stream in edge.streams else EVERYTHING
            for batch, segments in self._segments.get(stream, {}).items():
                if batch < one.since:
                    continue
                for bucket in _WORKER.cache.buckets(
                    self._plan.places.store, self._streams[stream], segments, self._queries.slot_us,
                    self._columns[stream], mine,
                ):  # fmt: skip
                    if first is None or bucket.slot > first - one.window:
                        yield bucket

    def sizes(self) -> dict[str, int]:
        """Sizes of this worker's state; buckets are shared by all joins."""
        root = self._plan.places.store.root
        shared = sum(one.join.state_bytes["shared"] for key, one in _WORKER.engines.items() if key[0] == root)
        return {**_WORKER.cache.sizes(root), "shared": shared}
