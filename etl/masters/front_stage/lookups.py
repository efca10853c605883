"""Interruptible lookups: in chunks of about 50 ms each, until the caller says stop.

    keys ─▶ 64 ─▶ cost per key ─▶ as many as fit into 50 ms ─▶ … ─▶ all of them, or until `going_on` is false

An external database may take milliseconds per key. A caller that waits for a front stage waits for one chunk at most.
A Delta table that is not sorted by its key is read completely by every call, whatever the number of keys: while a chunk
of twice as many keys costs hardly more, chunks keep growing, until twice the keys take nearly twice the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from etl.enrich.ports import MasterLookup

CHUNK_S = 0.05
_FIRST = 64
"""Keys of the first chunk, before anything is measured, and the least of any chunk."""
_GAIN = 0.75
"""The largest ratio of costs per key for which a chunk of twice as many keys pays."""


@dataclass(slots=True)
class PacedLookup:
    """Looks up rows of one master, and measures the cost per key."""

    clock: Callable[[], float] = time.perf_counter
    key_s: float | None = None
    least: int = _FIRST  # least keys of a chunk, however slow the store is
    settled: bool = False  # larger chunks do not lower the cost per key

    def rows(self, reader: MasterLookup, keys: pa.Array, going_on: Callable[[], bool]) -> tuple[pa.Table, int]:
        """The rows of the first keys, and the number of these keys: one chunk at least."""
        found: list[pa.Table] = []
        done = 0
        while done < len(keys) and (not found or going_on()):
            chunk, began = keys.slice(done, self._chunk_size()), self.clock()
            found.append(reader.lookup(chunk))
            self._note(len(chunk), self.clock() - began)
            done += len(chunk)
        return pa.concat_tables(found), done

    def _chunk_size(self) -> int:
        return _FIRST if self.key_s is None else max(self.least, int(CHUNK_S / max(self.key_s, 1e-9)))

    def _note(self, keys: int, took_s: float) -> None:
        """Update the cost per key from a chunk, and decide whether larger chunks pay."""
        before, now = self.key_s, took_s / keys
        if before is not None and took_s > CHUNK_S and took_s > 2 * before * max(keys, self.least):
            self.key_s, self.least, self.settled = None, _FIRST, False  # the store has changed
            return
        if keys < self.least:  # the last keys of a round: the cost of the call is divided among fewer
            return
        self.key_s = now
        if took_s <= CHUNK_S:
            return
        if self.settled:
            return
        if before is None or keys > self.least or now <= _GAIN * before:
            self.least = 2 * self.least
        else:
            self.least, self.settled = max(_FIRST, self.least // 2), True
