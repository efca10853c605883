"""Process slot by slot for all queries: AJoin's complete data path, without Spark.

    apply(changelog)        before a slot: queries start or end, the plan or the partitioning changes
    ingest(slot, tables)    a bucket per stream that some query reads
    results(task)           every query's results of this slot, all of them or one task's part
    adopt, hold             the same when the caller manages queries and buckets, and slots may arrive in pieces

A result belongs to the batch of its latest tuple. So at batch t exactly the combinations of buckets whose latest
arrived with t are joined, each once, whatever the previous plan was; every combination's join can be recomputed from
its buckets. Hence plan changes lose and duplicate nothing (figure 13), and the buckets are the only state. Where slots
arrive whole, a slot is its own batch (ADR 40).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

import pyarrow as pa

from etl.columnar import bitsets
from etl.correlate.adhoc.errors import BucketsOutOfOrder, SnapshotRefused
from etl.correlate.adhoc.plan import Choice, Leaf, Node, Plan, left_deep
from etl.correlate.adhoc.query.model import ColumnOf, Stream
from etl.correlate.adhoc.run.changes.changelog import Changelog
from etl.correlate.adhoc.run.changes.partitioning import PartitionHistory, even
from etl.correlate.adhoc.run.components import Component, LeafSets, Running, Slots, Team, build
from etl.correlate.adhoc.run.joins import eager
from etl.correlate.adhoc.run.joins.bucket import Bucket, BucketArrays, When
from etl.correlate.adhoc.run.joins.combine import combinations
from etl.correlate.adhoc.run.joins.eager import Flat
from etl.correlate.adhoc.run.joins.factor import Factor, QuerySets, join
from etl.correlate.adhoc.run.scan import Located, Scan
from etl.correlate.adhoc.run.sinks.result import QueryRows
from etl.correlate.adhoc.run.sinks.sink import Sink

ROWS_MOST = 1 << 62  # default limit per query and slot
_ALONE = 1 << 30  # group numbers from here on are for queries that are in no plan


@dataclass
class SlotResult:
    """The results of one slot: rows or partial aggregates by query, and counters."""

    slot: int
    rows: dict[str, QueryRows] = field(default_factory=dict)
    partials: dict[str, pa.Table] = field(default_factory=dict)
    too_many: set[str] = field(default_factory=set)  # queries that exceeded the row limit; they have no rows here
    joins: int = 0  # combinations of buckets that were joined for some query


@dataclass(frozen=True)
class Snapshot:
    """The state for recovery: buckets as arrays, queries and plan as values."""

    slot: int
    buckets: tuple[BucketArrays, ...]
    running: tuple[Running, ...]
    plan: Plan
    history: PartitionHistory


class AdhocJoin:
    """Shared ad-hoc joins over declared streams. `late=False` materialises at every join, as a baseline."""

    def __init__(
        self, streams: Mapping[str, Stream], *, first_slot: int = 0, tasks: int = 1, late: bool = True
    ) -> None:
        self.streams, self.next_slot, self.late = streams, first_slot, late
        self.rows_most = ROWS_MOST
        self.plan = Plan()
        self.history = PartitionHistory(((first_slot, even(tasks)),))
        self.running: dict[str, Running] = {}
        self._buckets: dict[tuple[str, When], Bucket] = {}
        self._components: list[Component] = []
        self._scans: dict[str, Scan] = {}
        self._located: dict[tuple[str, When], Located] = {}

    # -- changes ---------------------------------------------------------------------------------------------------

    def apply(self, changelog: Changelog) -> None:
        """Take effect before the next slot."""
        for name in changelog.delete:
            del self.running[name]
        for query in changelog.create:
            assert query.name not in self.running, "the registry hands out names once"
            self.running[query.name] = Running(query, self._free_number(), self.next_slot)
        if changelog.partitioning is not None:
            self.history = self.history.changed(self.next_slot, changelog.partitioning)
        if changelog.create or changelog.delete or changelog.plan is not None:
            self._replan(changelog.plan or self.plan)

    def _free_number(self) -> int:
        """The lowest unused bit number.

        Sets of older buckets may still have its former owner's bit. No mask includes it: masks name a query only for
        slots since its creation.
        """
        taken = {each.number for each in self.running.values()}
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def _replan(self, plan: Plan) -> None:
        choices = {name: plan.choices.get(name) or self._default(name) for name in self.running}
        self.plan = Plan(choices)
        self._components = build(self.plan, self.running, self._components, self.next_slot)
        readers: dict[str, list[Running]] = {}
        for each in sorted(self.running.values(), key=lambda r: r.number):
            for stream in each.query.streams:
                readers.setdefault(stream, []).append(each)
        self._scans = {name: Scan.of(self.streams[name], found) for name, found in readers.items()}
        self._located = {
            (stream, when): kept
            for (stream, when), located in self._located.items()
            if stream in self._scans and (kept := self._scans[stream].take_over(located, when)) is not None
        }

    def adopt(self, batch: int, running: Mapping[str, Running], plan: Plan) -> None:
        """Set queries and plan, managed by the caller, from a batch on."""
        self.next_slot, self.running = batch, dict(running)
        self._replan(plan)

    @property
    def columns(self) -> dict[str, tuple[str, ...]]:
        """The columns that buckets need, by stream."""
        return {name: tuple(scan.columns) for name, scan in self._scans.items()}

    def _default(self, name: str) -> Choice:
        query = self.running[name].query
        return Choice(left_deep(query), dict.fromkeys(query.edges, _ALONE + self.running[name].number))

    # -- slots -----------------------------------------------------------------------------------------------------

    def ingest(self, slot: int, tables: Mapping[str, pa.Table]) -> None:
        """Build the slot's buckets. Unused streams and columns are not kept."""
        if slot != self.next_slot:
            raise BucketsOutOfOrder(slot, self.next_slot)
        for stream, scan in self._scans.items():
            table = tables.get(stream)
            if table is not None and table.num_rows:
                bucket = Bucket(stream, slot, table.select(scan.columns).combine_chunks())
                self._buckets[stream, bucket.when] = bucket
        windows = {stream: scan.window for stream, scan in self._scans.items()}
        held = [each for (stream, at), each in self._buckets.items() if at.slot > slot - windows.get(stream, 0)]
        self.hold(slot, held)
        self.history = self.history.pruned(slot + 1 - max(windows.values(), default=0))

    def hold(self, batch: int, buckets: Iterable[Bucket]) -> None:
        """Set the current buckets; those of `batch` are new. Cached results of other buckets are dropped."""
        held = {(bucket.stream, bucket.when): bucket for bucket in buckets}
        same = {key for key, bucket in held.items() if self._buckets.get(key) is bucket}
        self._located = {key: each for key, each in self._located.items() if key in same}
        for component in self._components:
            component.retain(same)
        self._buckets, self.next_slot = held, batch + 1

    def results(self, task: int | None = None) -> SlotResult:
        """Every query's results of the newest slot: all of them, or one task's part."""
        found = SlotResult(self.next_slot - 1)
        for component in self._components:
            component.awake = self._awake(component)
            for root, team in component.roots.items():
                sink = Sink(team, self._types, self.rows_most)
                for slots, mask in self._combinations(component, root, team):
                    joined = self._join(component, root, slots, mask)
                    partitioning = None if task is None else self.history.at(min(at.batch for at in slots))
                    if joined is not None:
                        found.joins += 1
                        sink.take(joined, mask, task, partitioning)
                found.rows |= sink.rows
                found.partials |= sink.merged()
                found.too_many |= sink.too_many
        return found

    def step(self, slot: int, tables: Mapping[str, pa.Table]) -> SlotResult:
        self.ingest(slot, tables)
        return self.results()

    def _types(self, of: ColumnOf) -> pa.DataType:
        return self.streams[of.stream].columns[of.column]

    def _combinations(self, component: Component, root: Node, team: Team) -> Iterator[tuple[Slots, int]]:
        """Combinations of buckets, one per stream in order of name, with new results; and the queries they are for."""
        newest, possible, there = self.next_slot - 1, team.mask & component.awake, list[list[When]]()
        if not possible:
            return
        for stream in root.streams:
            recent = (at for name, at in self._buckets if name == stream and at.batch >= team.created)
            leaves = {at: leaf for at in recent if (leaf := self._leaf(component, stream, at)) is not None}
            possible &= reduce(or_, (leaf.mask for leaf in leaves.values()), 0)
            there.append(list(leaves))
            if not possible:
                return
        masks: dict[tuple[int, int], int] = {}
        for slots in combinations(there, newest, team.window):
            limits = min(at.batch for at in slots), max(at.slot for at in slots) - min(at.slot for at in slots)
            if limits not in masks:
                masks[limits] = team.covering(*limits, possible)
            if masks[limits]:
                yield slots, masks[limits]

    # -- joins -----------------------------------------------------------------------------------------------------

    def _join(self, component: Component, node: Node, slots: Slots, mask: int) -> Factor | Flat | None:
        """A node's result for one combination. Results that are joined further are cached for all sharing queries."""
        if node not in component.inner:
            return self._joined(component, node, slots, mask)
        if (node, slots) not in component.results:
            oldest, apart = min(at.batch for at in slots), max(at.slot for at in slots) - min(at.slot for at in slots)
            everybody = component.sharers[node].covering(oldest, apart)
            component.results[node, slots] = self._joined(component, node, slots, everybody)
        return component.results[node, slots]

    def _joined(self, component: Component, node: Node, slots: Slots, mask: int) -> Factor | Flat | None:
        at = dict(zip(node.streams, slots, strict=True))
        sides: list[Factor | Flat] = []
        for child in node.children:
            if isinstance(child, Leaf):
                side: Factor | Flat | None = self._leaf(component, child.stream, at[child.stream])
                if isinstance(side, Factor) and not self.late:
                    side = eager.flatten_leaf(side)
            else:
                below = tuple(at[stream] for stream in child.streams)
                side = self._join(component, child, below, mask)
            if side is None:
                return None
            sides.append(side)
        left, right = sides
        if isinstance(left, Factor) and isinstance(right, Factor):
            return join(left, right, node.tree.edge, mask, component.sharers[node].mask)
        assert isinstance(left, Flat), "late and eager results do not mix"
        assert isinstance(right, Flat), "late and eager results do not mix"
        return eager.join_flat(left, right, node.tree.edge, mask)

    def _leaf(self, component: Component, stream: str, when: When) -> Factor | None:
        """A bucket with the component's query sets; None if no awake query selects any of its tuples."""
        leaf = component.leaves.get((stream, when))
        if leaf is None or component.awake & component.readers[stream] & ~leaf.evaluated:
            bucket = self._buckets.get((stream, when))
            wanted = component.awake | (leaf.evaluated if leaf is not None else 0)
            leaf = LeafSets(wanted, None if bucket is None else self._query_sets(wanted & component.mask, bucket))
            component.set_leaf(stream, when, leaf)
        return leaf.factor

    def _awake(self, component: Component) -> int:
        """The queries that may select some tuple of each of their streams. Others have no result in this slot."""
        asleep = 0
        for stream, readers in component.readers.items():
            buckets = (bucket for (name, _), bucket in self._buckets.items() if name == stream)
            active = reduce(or_, (self._locate(bucket).active for bucket in buckets), 0)
            asleep |= readers & ~active
        return component.mask & ~asleep

    def _query_sets(self, queries: int, bucket: Bucket) -> Factor | None:
        located = self._locate(bucket)
        wanted = queries & located.active
        if not wanted:
            return None
        words = located.evaluate(len(bucket), wanted)
        having = bitsets.extract_mask(bitsets.union(words), wanted)
        if not having:
            return None
        return Factor(
            {bucket.stream: bucket}, {bucket.stream: QuerySets(having, bitsets.extract(words, wanted, having))}
        )

    def _locate(self, bucket: Bucket) -> Located:
        key = (bucket.stream, bucket.when)
        if key not in self._located:
            self._located[key] = self._scans[bucket.stream].locate(bucket)
        return self._located[key]

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def state_bytes(self) -> dict[str, int]:
        tuples = sum(int(bucket.table.nbytes) for bucket in self._buckets.values())
        indexes = sum(bucket.index_bytes for bucket in self._buckets.values())
        return {"tuples": tuples, "indexes": indexes, "shared": sum(each.nbytes for each in self._components)}

    def snapshot(self) -> Snapshot:
        buckets = tuple(bucket.snapshot() for bucket in self._buckets.values())
        running = tuple(self.running.values())
        return Snapshot(self.next_slot, buckets, running, self.plan, self.history)

    @classmethod
    def restore(cls, streams: Mapping[str, Stream], snapshot: Snapshot, *, late: bool = True) -> AdhocJoin:
        engine = cls(streams, first_slot=snapshot.slot, late=late)
        engine.running = {each.query.name: each for each in snapshot.running}
        engine.history = snapshot.history
        for arrays in snapshot.buckets:
            if arrays.slot >= snapshot.slot or arrays.stream not in streams:
                raise SnapshotRefused(
                    f"it holds {arrays.stream} of slot {arrays.slot}, but ends before slot {snapshot.slot}"
                )
            bucket = arrays.restore()
            engine._buckets[arrays.stream, bucket.when] = bucket
        engine._replan(snapshot.plan)
        return engine
