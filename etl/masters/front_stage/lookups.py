"""Look-ups that can be broken off: bite after bite, each of about 50 ms, for as long as the caller may go on.

    keys ─▶ 64 ─▶ what a key costs ─▶ as many as 50 ms pay for ─▶ … ─▶ all of them, or `going_on` says no

Somebody else's database may take milliseconds for a key. Whoever waits for a front stage waits for one bite at most.
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


@dataclass(slots=True)
class PacedLookup:
    """Looks up rows of one master, and remembers what a key costs."""

    clock: Callable[[], float] = time.perf_counter
    key_s: float | None = None

    def rows(self, reader: MasterLookup, keys: pa.Array, going_on: Callable[[], bool]) -> tuple[pa.Table, int]:
        """The rows of the first keys, and how many keys that were: one bite at least."""
        found: list[pa.Table] = []
        done = 0
        while done < len(keys) and (not found or going_on()):
            bite, began = keys.slice(done, self._bite()), self.clock()
            found.append(reader.lookup(bite))
            self.key_s = (self.clock() - began) / len(bite)
            done += len(bite)
        return pa.concat_tables(found), done

    def _bite(self) -> int:
        return _FIRST if self.key_s is None else max(_FIRST, int(BITE_S / max(self.key_s, 1e-9)))
