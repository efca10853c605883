"""Messages of dispatchers to the driver about values: those without a partition, and the creators' groups.

Their size is bounded: only the most frequent values are reported. Documents with unreported values are broadcast to all
joiners, which costs messages but never loses a pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from etl.correlate.documents.dictionary import I64, U64
from etl.correlate.documents.partitioning.groups import Groups
from etl.correlate.documents.partitioning.meetings import Encounters
from etl.correlate.documents.partitioning.routing import Routed
from etl.pipeline.tasks.wire import Message, rows_message, rows_of

_MOST_UNSEEN = 50_000
_MOST_GROUPED = 500_000  # values in groups of one creator


@dataclass(frozen=True, slots=True)
class Unseen:
    """Values without a partition: their counts, and the other values of the first document that had them."""

    hashes: U64
    counts: I64
    beside: Routed


def unseen_message(correlation: int, routed: Routed, unseen: U64) -> Message:
    """The most frequent values without a partition."""
    hashes, counts = np.unique(unseen, return_counts=True)
    chosen = np.sort(np.argsort(-counts, kind="stable")[:_MOST_UNSEEN])
    hashes, counts = hashes[chosen], counts[chosen]
    here = np.flatnonzero(np.isin(routed.hashes, hashes))
    order = here[np.argsort(routed.hashes[here], kind="stable")]
    first = order[np.searchsorted(routed.hashes[order], hashes)]
    rows = routed.owners[first]
    beside = [routed.hashes[routed.offsets[row] : routed.offsets[row + 1]] for row in rows.tolist()]
    lengths = np.array([len(one) for one in beside], np.int64)
    lists = _lists(lengths, np.concatenate([np.zeros(0, np.uint64), *beside]))
    batch = pa.record_batch({"hash": pa.array(hashes), "count": pa.array(counts.astype(np.int64)), "beside": lists})
    return _addressed(batch, f"unseen {correlation}")


def unseen_of(table: pa.Table) -> Unseen:
    lists = table.column("beside").combine_chunks()
    lengths = np.diff(lists.offsets.to_numpy())
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    beside = Routed(offsets, lists.flatten().to_numpy(), np.zeros(len(lengths), np.bool_))
    return Unseen(table.column("hash").to_numpy(), table.column("count").to_numpy(), beside)


def groups_message(correlation: int, groups: Groups) -> Message:
    """The heaviest of a creator's groups."""
    order = np.argsort(-groups.loads, kind="stable")
    kept = np.sort(order[np.cumsum(groups.sizes[order]) <= _MOST_GROUPED])
    sets = [groups.hashes[groups.offsets[one] : groups.offsets[one + 1]] for one in kept.tolist()]
    lists = _lists(groups.sizes[kept], np.concatenate([np.zeros(0, np.uint64), *sets]))
    return _addressed(pa.record_batch({"load": pa.array(groups.loads[kept]), "group": lists}), f"groups {correlation}")


def groups_of(table: pa.Table) -> Groups:
    lists = table.column("group").combine_chunks()
    lengths = np.diff(lists.offsets.to_numpy())
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Groups(offsets, lists.flatten().to_numpy(), table.column("load").to_numpy())


def encounters_message(correlation: int, found: Encounters) -> Message:
    """A creator's report on meeting attributes: the most frequent encounters."""
    kept = np.sort(np.argsort(-found.counts, kind="stable")[:_MOST_GROUPED])
    columns = {"pair": found.pairs[kept], "key": found.keys[kept], "count": found.counts[kept]}
    batch = pa.record_batch({name: pa.array(values) for name, values in columns.items()})
    return _addressed(batch, f"encounters {correlation}")


def encounters_of(table: pa.Table) -> Encounters:
    return Encounters(*(table.column(name).to_numpy() for name in ("pair", "key", "count")))


def parse(message: Message) -> tuple[str, int, pa.Table]:
    """The kind, correlation and rows of a message."""
    what, _, correlation = message.name.partition(" ")
    return what, int(correlation), rows_of(message)


def _lists(lengths: I64, values: U64) -> pa.ListArray:
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, pa.uint64()))


def _addressed(batch: pa.RecordBatch, name: str) -> Message:
    return replace(rows_message(batch, 0), kind="values", name=name)
