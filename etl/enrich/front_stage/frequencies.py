"""Key frequencies: how often a join looked up each key, in bounded size, to be sent to the driver.

Many workers join parts of one stream. Each counts the keys that it probed or had to read; the counts are added up,
and the keeper of the front stage admits the most frequent. Only the most frequent keys are kept, so the size does
not grow with the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.columnar.keys import I64, distinct, encode, to_contiguous

MOST_KEYS = 131_072


@dataclass(frozen=True, slots=True)
class KeyFrequencies:
    """Keys with the number of tuples that had them; `tuples` counts all joined tuples."""

    keys: pa.Array
    counts: I64
    tuples: int = 0

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes + self.counts.nbytes)

    def __add__(self, other: KeyFrequencies) -> KeyFrequencies:
        return total([self, other])


def total(parts: list[KeyFrequencies], most: int = MOST_KEYS) -> KeyFrequencies:
    """Sum several frequencies, cut to the `most` most frequent keys."""
    every = _concatenated(parts)
    if sum(len(part) > 0 for part in parts) > 1:
        groups = distinct(encode(every.keys))
        counts = np.bincount(groups.codes, weights=every.counts).astype(np.int64)
        every = KeyFrequencies(every.keys.take(pa.array(groups.first)), counts, every.tuples)
    return _cut(every, most)


def disjoint(parts: list[KeyFrequencies], most: int = MOST_KEYS) -> KeyFrequencies:
    """The same for frequencies without common keys; faster."""
    return _cut(_concatenated(parts), most)


def _concatenated(parts: list[KeyFrequencies]) -> KeyFrequencies:
    filled = [part for part in parts if len(part)] or parts[:1]
    keys = filled[0].keys if len(filled) == 1 else pa.concat_arrays([part.keys for part in filled])
    counts = np.concatenate([part.counts for part in filled])
    return KeyFrequencies(keys, counts, sum(part.tuples for part in parts))


def _cut(learned: KeyFrequencies, most: int) -> KeyFrequencies:
    if len(learned) <= most:
        return learned
    order = np.argpartition(-learned.counts, most - 1)[:most]
    return KeyFrequencies(learned.keys.take(pa.array(order)), learned.counts[order], learned.tuples)


class FrequencyCollector:
    """Collects frequencies: many small parts, merged now and then to stay small."""

    _FEW = 64  # unmerged small parts

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._most = most
        self._small: list[KeyFrequencies] = []
        self._parts: list[KeyFrequencies] = []
        self._size = 0
        self.nbytes = 0

    def note(self, keys: pa.Array | pa.ChunkedArray, counts: I64, tuples: int = 0) -> None:
        """Add distinct keys with their numbers of tuples."""
        self._small.append(KeyFrequencies(to_contiguous(keys), counts, tuples))
        self._size += len(counts)
        self.nbytes += self._small[-1].nbytes
        if len(self._small) == self._FEW:
            self._parts.append(total(self._small, self._most))
            self._small = []
            self._count()
        if self._size > 4 * self._most:
            self._parts, self._small = [total([*self._parts, *self._small], self._most)], []
            self._count()

    def _count(self) -> None:
        self._size = sum(len(part) for part in self._parts)
        self.nbytes = sum(part.nbytes for part in self._parts)

    def snapshot(self) -> KeyFrequencies | None:
        """The sum of all parts; None if there are none."""
        parts = [*self._parts, *self._small]
        return total(parts, self._most) if parts else None
