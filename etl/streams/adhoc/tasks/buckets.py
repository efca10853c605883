"""Buckets of ad-hoc queries in a worker: rows of mapped segments by slot, and by the key of a join attribute.

    segment ── event time ──► slot │ late
            ── hash of the key ──► share: a task takes the rows of its shares, once for every attribute (ADR 86)

A bucket is determined by the numbers of its segments, so a worker's cached bucket stays valid whatever the batch's
outcome. It has the columns that queries needed when it was built: later queries do not see it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar import csr
from etl.contract.correlations.correlation import LoggedStream
from etl.correlate.adhoc.query.keys import index_by
from etl.correlate.adhoc.run.changes.partitioning import even, tasks_of_rows
from etl.correlate.adhoc.run.joins.bucket import Attribute, Bucket
from etl.correlate.prepare import event_times
from etl.streams.adhoc.state import LiveSegment
from etl.streams.storage.files import FileStore
from etl.streams.storage.log import from_ipc, segment_name

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of a stream for one task: those whose key attribute hashes to it; None: all of them."""

    attribute: Attribute | None
    number: int = 0
    of: int = 1


EVERYTHING = Share(None)
Source = tuple[str, tuple[int, ...]]  # root of the store; numbers of the segments that came with one batch


@dataclass
class Arrival:
    """A stream's segments of one batch: their rows as one table, with slot and share of each row."""

    table: pa.Table
    slots: I64  # by row
    on_time: npt.NDArray[np.bool_]
    buckets: dict[Share, list[Bucket]] = field(default_factory=dict)

    def rows_of(self, share: Share) -> npt.NDArray[np.intp]:
        """The rows of a share; rows without a key are in none."""
        if share.attribute is None or share.of == 1:
            return np.flatnonzero(self.on_time)
        index = index_by(self.table, share.attribute)
        tasks = tasks_of_rows(csr.codes_of(index, self.table.num_rows), even(share.of).assign(index.lo, index.hi))
        return np.flatnonzero(self.on_time & (tasks == share.number))


class BucketCache:
    """A worker's cache of buckets. Losing it costs time, never a row."""

    def __init__(self) -> None:
        self._arrivals: dict[Source, Arrival] = {}

    def retain(self, root: str, live: Iterable[int]) -> None:
        """Drop buckets of segments that are no longer in use."""
        wanted = set(live)
        gone = [key for key in self._arrivals if key[0] == root and not wanted.issuperset(key[1])]
        for key in gone:
            del self._arrivals[key]

    def sizes(self, root: str) -> dict[str, int]:
        """Bytes of tuples and indexes."""
        held = [
            bucket
            for key, arrival in self._arrivals.items()
            if key[0] == root
            for buckets in arrival.buckets.values()
            for bucket in buckets
        ]
        return {
            "tuples": sum(int(one.table.nbytes) for one in held),
            "indexes": sum(one.index_bytes for one in held),
        }

    def buckets(
        self, store: FileStore, stream: LoggedStream, segments: Sequence[LiveSegment], slot_us: int,
        columns: Sequence[str], share: Share,
    ) -> list[Bucket]:  # fmt: skip
        """The buckets of one batch's segments of a stream, or of a share of their rows."""
        if share.of == 1:
            share = EVERYTHING
        key = store.root, tuple(sorted(one.number for one in segments))
        arrival = self._arrivals.get(key)
        if arrival is None:
            arrival = self._arrivals[key] = _arrival(store, stream, segments, slot_us, columns)
        if share not in arrival.buckets:
            arrival.buckets[share] = _make_buckets(stream.name, segments[0].batch, arrival, share)
        return arrival.buckets[share]


def _arrival(
    store: FileStore, stream: LoggedStream, segments: Sequence[LiveSegment], slot_us: int, columns: Sequence[str]
) -> Arrival:
    tables, times = [], []
    for one in sorted(segments, key=lambda each: each.number):
        (rows,) = store.open(segment_name(stream.name, one.number), from_ipc)
        there = set(rows.schema.names)
        wanted = [(name, stream.schema.field(name).type) for name in columns]
        arrays = [rows[name] if name in there else pa.nulls(rows.num_rows, kind) for name, kind in wanted]
        tables.append(pa.Table.from_arrays(arrays, names=list(columns)))
        times.append(event_times(rows[stream.event_time]))
    slots = np.concatenate(times) // slot_us
    first = segments[0].first_slot
    on_time = np.ones(len(slots), bool) if first is None else slots >= first
    return Arrival(pa.concat_tables(tables), slots, on_time)


def _make_buckets(stream: str, batch: int, arrival: Arrival, share: Share) -> list[Bucket]:
    """A bucket per slot that has rows of the share."""
    rows = arrival.rows_of(share)
    slots = arrival.slots[rows]
    found = []
    for slot in np.unique(slots).tolist():
        chosen = rows[slots == slot]
        whole = len(chosen) == arrival.table.num_rows
        table = (arrival.table if whole else arrival.table.take(pa.array(chosen))).combine_chunks()
        found.append(Bucket(stream, slot, table, batch=batch))
    return found


def by_batch(segments: Iterable[LiveSegment]) -> Mapping[str, dict[int, list[LiveSegment]]]:
    """Segments by stream and batch."""
    found: dict[str, dict[int, list[LiveSegment]]] = {}
    for one in segments:
        found.setdefault(one.stream, {}).setdefault(one.batch, []).append(one)
    return found
