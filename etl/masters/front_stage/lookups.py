"""Look-ups that can be broken off: bite after bite, each of about 50 ms, for as long as the caller may go on.

    keys ─▶ 64 ─▶ what a key costs ─▶ as many as 50 ms pay for ─▶ … ─▶ all of them, or `going_on` says no

Somebody else's database may take milliseconds for a key. Whoever waits for a front stage waits for one bite at most.
A Delta table that is not sorted by its key is read whole by every call, whatever the number of keys: where a bite of
twice as many keys costs hardly more, bites go on growing, until twice the keys take nearly twice the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from etl.enrich.ports import MasterLookup

BITE_S = 0.05
_FIRST = 64
"""Keys of a bite while nothing is known of the store, and the least of any."""
_GAIN = 0.75
"""What a key may cost in a bite of twice as many, at most, for the larger bite to be worth its time."""


@dataclass(slots=True)
class PacedLookup:
    """Looks up rows of one master, and remembers what a key costs."""

    clock: Callable[[], float] = time.perf_counter
    key_s: float | None = None
    least: int = _FIRST  # keys of a bite, however slow the store is
    settled: bool = False  # more keys to a bite do not make a key cheaper

    def rows(self, reader: MasterLookup, keys: pa.Array, going_on: Callable[[], bool]) -> tuple[pa.Table, int]:
        """The rows of the first keys, and how many keys that were: one bite at least."""
        found: list[pa.Table] = []
        done = 0
        while done < len(keys) and (not found or going_on()):
            bite, began = keys.slice(done, self._bite()), self.clock()
            found.append(reader.lookup(bite))
            self._note(len(bite), self.clock() - began)
            done += len(bite)
        return pa.concat_tables(found), done

    def _bite(self) -> int:
        return _FIRST if self.key_s is None else max(self.least, int(BITE_S / max(self.key_s, 1e-9)))

    def _note(self, keys: int, took_s: float) -> None:
        """Learn from a bite what a key costs, and whether larger bites are worth their time."""
        before, now = self.key_s, took_s / keys
        if keys < self.least:  # the last keys of a round: what a call costs is not divided by as many
            return
        self.key_s = now
        if took_s <= BITE_S:
            return
        if before is not None and now > 2 * before:  # the store is not what it was
            self.key_s, self.least, self.settled = None, _FIRST, False
        elif self.settled:
            return
        elif before is None or keys > self.least or now <= _GAIN * before:
            self.least = 2 * self.least
        else:
            self.least, self.settled = max(_FIRST, self.least // 2), True
