"""m partitions as a table from a pair's hash to the partitions that hold it, one bit each.

Bits are in words of 64, so m is unbounded. A pair that is not in the table is *unseen*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from etl.correlate.documents.dictionary import I64, U64
from etl.correlate.documents.errors import InvalidOption
from etl.correlate.documents.partitioning.routing import Routing


@dataclass(frozen=True, slots=True)
class Places:
    """The places where documents without the key meet those with it, by announcing pair (`meetings`)."""

    hashes: U64  # rising
    masks: U64

    def look_up(self, hashes: U64, count: int) -> U64:
        """The places of pairs; a pair that was in no sample has one place, by its hash."""
        rows, known = _look_up(self.hashes, self.masks, hashes, count)
        return np.where(known[:, None], rows, home(hashes, count))


NO_PLACES = Places(np.empty(0, np.uint64), np.empty((0, 1), np.uint64))


@dataclass(frozen=True, slots=True)
class Partitions:
    """The merger's output for the assigners. Immutable; an update creates a new one."""

    routing: Routing
    count: int
    hashes: U64  # rising
    masks: U64  # the partitions of every pair, one row of words each
    loads: I64  # expected documents per partition
    places: Places = NO_PLACES

    @staticmethod
    def of(routing: Routing, count: int, hashes: U64, masks: U64, loads: I64) -> Partitions:
        """Partitions from pairs in any order; several entries of one pair are combined."""
        if count < 1:
            raise InvalidOption("partitions", count, "at least 1")
        order = np.argsort(hashes, kind="stable")
        distinct, starts = np.unique(hashes[order], return_index=True)
        rows = np.bitwise_or.reduceat(masks[order], starts, axis=0) if len(starts) else masks
        return Partitions(routing, count, distinct, rows, loads)

    def look_up(self, hashes: U64) -> tuple[U64, npt.NDArray[np.bool_]]:
        """The partitions of pairs, and which pairs are known."""
        return _look_up(self.hashes, self.masks, hashes, self.count)

    def with_pairs(self, hashes: U64, masks: U64, loads: I64) -> Partitions:
        """A copy with these pairs added."""
        both = np.concatenate([self.hashes, hashes]), np.concatenate([self.masks, masks])
        return replace(Partitions.of(self.routing, self.count, *both, loads), places=self.places)


def words(count: int) -> int:
    """The number of 64-bit words for `count` partitions."""
    return (count + 63) // 64


def bits(partition: I64, count: int) -> U64:
    """One row of words for each partition number, with its bit."""
    rows = np.zeros((len(partition), words(count)), np.uint64)
    rows[np.arange(len(partition)), partition // 64] = np.uint64(1) << (partition % 64).astype(np.uint64)
    return rows


def home(hashes: U64, count: int) -> U64:
    """One partition for each pair, by its hash."""
    return bits((hashes % np.uint64(count)).astype(np.int64), count)


def _look_up(table: U64, masks: U64, hashes: U64, count: int) -> tuple[U64, npt.NDArray[np.bool_]]:
    if not len(table):
        return np.zeros((len(hashes), words(count)), np.uint64), np.zeros(len(hashes), np.bool_)
    place = np.minimum(np.searchsorted(table, hashes), len(table) - 1)
    known = table[place] == hashes
    return np.where(known[:, None], masks[place], np.uint64(0)), known


def all_bits(count: int) -> U64:
    """The row of a broadcast document."""
    rows = bits(np.arange(count, dtype=np.int64), count)
    everywhere: U64 = np.bitwise_or.reduce(rows, axis=0)
    return everywhere


def bit_counts(masks: U64) -> I64:
    """The number of rows with each partition's bit."""
    octets = np.ascontiguousarray(masks, "<u8").view(np.uint8).reshape(len(masks), 8 * masks.shape[1])
    counts: I64 = np.unpackbits(octets, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
    return counts


def below(masks: U64, partition: int) -> U64:
    """The bits of partitions smaller than one."""
    lower = masks[:, : partition // 64 + 1].copy()
    lower[:, -1] &= np.uint64((1 << (partition % 64)) - 1)
    return lower


def holds(masks: U64, partition: int) -> npt.NDArray[np.bool_]:
    """Which rows have a partition's bit."""
    word = masks[:, partition // 64] >> np.uint64(partition % 64)
    return (word & np.uint64(1)).astype(np.bool_)
