"""Interruptible lookups: in chunks of about 50 ms each, until the caller says stop.

    keys ─▶ 64 ─▶ cost per key ─▶ as many as fit into 50 ms ─▶ … ─▶ all of them, or until `going_on` is false

An external database may take milliseconds per key. A caller that waits for a front stage waits for one chunk at most.
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
    """Looks up rows of one master, and measures the cost per key."""

    clock: Callable[[], float] = time.perf_counter
    key_s: float | None = None

    def rows(self, reader: MasterLookup, keys: pa.Array, going_on: Callable[[], bool]) -> tuple[pa.Table, int]:
        """The rows of the first keys, and the number of these keys: one chunk at least."""
        found: list[pa.Table] = []
        done = 0
        while done < len(keys) and (not found or going_on()):
            bite, began = keys.slice(done, self._chunk_size()), self.clock()
            found.append(reader.lookup(bite))
            self.key_s = (self.clock() - began) / len(bite)
            done += len(bite)
        return pa.concat_tables(found), done

    def _chunk_size(self) -> int:
        return _FIRST if self.key_s is None else max(_FIRST, int(BITE_S / max(self.key_s, 1e-9)))
