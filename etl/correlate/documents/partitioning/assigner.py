"""The assigner: the partitions of each document, and the new pairs to add to the partitions.

    every pair known      to all partitions that hold one of its pairs
    some pair unseen      to all partitions: documents with that pair may be anywhere
    no key                to the partitions of its partners (`meetings`), or to all partitions
    no pair at all        to none: it joins nothing

After an unseen pair was sighted δ times it is a candidate: the merger adds it to one partition, and from then on it
routes. Earlier documents with it went everywhere, so nothing is missed. After a repartition inside a window, documents
are routed by the old *and* the new partitions until the window ends; two documents then meet by the version that routed
the earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from etl.correlate.documents.dictionary import U64
from etl.correlate.documents.errors import InvalidOption
from etl.correlate.documents.model import Documents
from etl.correlate.documents.partitioning.meetings import bring_together
from etl.correlate.documents.partitioning.partitions import Partitions, all_bits, bit_counts, bits, words
from etl.correlate.documents.partitioning.quality import Quality
from etl.correlate.documents.partitioning.routing import Routed, route

_MOST_SIGHTINGS = 1_000_000


@dataclass(frozen=True, slots=True)
class Assignment:
    """The targets of documents: a row of partition bits each. `unseen`: pairs without a partition, with repetition."""

    masks: U64
    partitions: int
    broadcast: int
    unseen: U64

    @property
    def quality(self) -> Quality:
        return Quality(len(self.masks), bit_counts(self.masks)[: self.partitions])


def assign(documents: Documents, partitionings: Sequence[Partitions]) -> Assignment:
    """Route by every partitioning in force, the newest last."""
    count = max(partitions.count for partitions in partitionings)
    masks, unseen = np.zeros((len(documents), words(count)), np.uint64), np.empty(0, np.uint64)
    everywhere = np.zeros(len(documents), np.bool_)
    for partitions in partitionings:
        routed = route(documents, partitions.routing)
        rows, known = partitions.look_up(routed.hashes)
        own, some = np.zeros((len(documents), words(partitions.count)), np.uint64), np.diff(routed.offsets) > 0
        if some.any():
            starts = routed.offsets[:-1][some]
            own[some] = np.bitwise_or.reduceat(rows, starts, axis=0)
        beyond = routed.broadcast.copy()
        beyond[routed.owners[~known]] = True
        if partitions.routing.meeting:
            own, beyond = bring_together(documents, partitions, routed.broadcast, own, beyond)
        masks |= _widened(own, words(count))
        everywhere |= beyond
        unseen = routed.hashes[~known]
    everywhere &= documents.lengths > 0
    masks[everywhere] = all_bits(count)
    return Assignment(masks, count, int(everywhere.sum()), unseen)


@dataclass(slots=True)
class Sightings:
    """Counts of pairs without a partition; the rarest are dropped when there are too many."""

    delta: int = 3
    counts: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.delta < 1:
            raise InvalidOption("delta", self.delta, "at least 1")

    def add(self, unseen: U64) -> U64:
        """Count pairs; returns and removes those that have been seen often enough."""
        hashes, times = np.unique(unseen, return_counts=True)
        ready: list[int] = []
        for pair, count in zip(hashes.tolist(), times.tolist(), strict=True):
            total = self.counts.pop(pair, 0) + count
            if total >= self.delta:
                ready.append(pair)
            else:
                self.counts[pair] = total
        if len(self.counts) > _MOST_SIGHTINGS:
            self.counts = {pair: count for pair, count in self.counts.items() if count > 1}
        return np.array(ready, np.uint64)


def update(partitions: Partitions, documents: Routed, candidates: U64) -> Partitions:
    """Add each candidate to the partition with which its document shares most pairs, on a tie the lightest."""
    known, _ = partitions.look_up(documents.hashes)
    here = np.flatnonzero(np.isin(documents.hashes, candidates))
    hashes, first = np.unique(documents.hashes[here], return_index=True)
    rows = documents.owners[here[first]]
    loads, target = partitions.loads.copy(), np.zeros(len(hashes), np.int64)
    for place, row in enumerate(rows.tolist()):
        own = known[documents.offsets[row] : documents.offsets[row + 1]]
        common = bit_counts(own)[: partitions.count]
        target[place] = np.lexsort((loads, -common))[0]
        loads[target[place]] += 1
    return partitions.with_pairs(hashes, bits(target, partitions.count), loads)


def _widened(rows: U64, width: int) -> U64:
    missing = np.zeros((len(rows), width - rows.shape[1]), np.uint64)
    return np.concatenate([rows, missing], axis=1) if missing.shape[1] else rows
