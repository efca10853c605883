"""Expiring keys: a bounded first-in-first-out set of keys, each with a deadline.

The front stage keeps two: keys known to have no master row (until the deadline, so that a late master row is
found), and keys whose row was invalidated (so that the next miss is counted as stale, not as a capacity miss).
"""

from __future__ import annotations

import numpy as np

from etl.columnar.hash_index import HashIndex
from etl.columnar.keys import I64, Keys, distinct


class ExpiringKeys:
    """At most `capacity` keys; the oldest are evicted first."""

    def __init__(self, capacity: int, *, two_lanes: bool) -> None:
        self._capacity = capacity
        self._index = HashIndex(capacity, two_lanes=two_lanes)
        self._lo = np.zeros(capacity, np.uint64)
        self._hi = np.zeros(capacity, np.uint64) if two_lanes else None
        self._until = np.full(capacity, -np.inf)
        self._live = np.zeros(capacity, bool)
        self._cursor = 0

    @staticmethod
    def bytes_per_key(*, two_lanes: bool) -> int:
        return 2 * (20 if two_lanes else 12) + 8 * (3 if two_lanes else 2) + 1

    @property
    def nbytes(self) -> int:
        hi = 0 if self._hi is None else self._hi.nbytes
        return self._index.nbytes + self._lo.nbytes + hi + self._until.nbytes + self._live.nbytes

    def __len__(self) -> int:
        return self._index.size

    def until(self, keys: Keys) -> np.ndarray:
        """The deadline of each key, -inf for keys not in the set."""
        if not len(self):
            return np.full(len(keys), -np.inf)
        place = self._index.find(keys)
        return np.where(place >= 0, self._until[place], -np.inf)

    def add(self, keys: Keys, until: float) -> None:
        """Adds keys with a deadline; existing ones get the new deadline."""
        keys = keys.take(distinct(keys).first[-self._capacity :]) if self._capacity else keys.take(slice(0, 0))
        place = self._index.find(keys)
        self._until[place[place >= 0]] = until
        new = keys.take(place < 0)
        if not len(new):
            return
        where = (self._cursor + np.arange(len(new))) % self._capacity
        self._evict(where)
        self._cursor = int(where[-1] + 1) % self._capacity
        self._lo[where] = new.lo
        if self._hi is not None and new.hi is not None:
            self._hi[where] = new.hi
        self._until[where], self._live[where] = until, True
        self._index.add(new, where)

    def remove(self, keys: Keys) -> None:
        """Removes keys that are in the set."""
        if len(self):
            place = self._index.find(keys)
            self._evict(np.unique(place[place >= 0]))

    def clear(self) -> None:
        self._index.clear()
        self._live[:] = False
        self._until[:] = -np.inf

    def _evict(self, places: I64) -> None:
        places = places[self._live[places]]
        if len(places):
            self._index.remove(Keys(self._lo[places], None if self._hi is None else self._hi[places], None, None))
            self._live[places] = False
            self._until[places] = -np.inf
