"""Master stores that answer as fast as somebody else's database or a cold disk does, and no faster.

    Slowed(masters, pace).pinned ─▶ the same masters ─▶ open ─▶ every key looked up, every page fetched costs its time

On one machine with everything in memory no store is slow: a lookup takes microseconds. What overload is about is a
store that many share. Reading in order (what dimensions do) is not slowed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa

from etl.enrich.ports import Capabilities, ChangeTracking, MasterReader
from etl.masters.masters import Masters, PinnedMaster, Place
from etl.model import Progress


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that one key or one page takes."""

    key_s: float = 0.0
    page_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SlowReader:
    """A reader of a master, at a pace."""

    reader: MasterReader
    pace: Pace

    @property
    def capabilities(self) -> Capabilities:
        return self.reader.capabilities

    @property
    def change_tracking(self) -> ChangeTracking | None:
        return self.reader.change_tracking

    def lookup(self, keys: pa.Array) -> pa.Table:
        began = time.perf_counter()
        rows = self.reader.lookup(keys)
        _wait(began, len(keys) * self.pace.key_s)
        return rows

    def page_count(self) -> int:
        return self.reader.page_count()

    def read_pages(self, first: int, count: int) -> pa.Table:
        return self.reader.read_pages(first, count)

    def pages_holding(self, keys: pa.Array) -> tuple[pa.Table, int]:
        began = time.perf_counter()
        rows, pages = self.reader.pages_holding(keys)
        _wait(began, pages * self.pace.page_s)
        return rows, pages


def _wait(began: float, seconds: float) -> None:
    time.sleep(max(0.0, began + seconds - time.perf_counter()))


@dataclass(frozen=True, slots=True)
class SlowPlace:
    """Where one version of a master is read, at a pace."""

    place: Place
    pace: Pace

    def open(self) -> AbstractContextManager[MasterReader]:
        return self._opened()

    @contextmanager
    def _opened(self) -> Iterator[MasterReader]:
        with self.place.open() as reader:
            yield SlowReader(reader, self.pace)


@dataclass(frozen=True, slots=True)
class Slowed:
    """All masters of a store, at a pace."""

    masters: Masters
    pace: Pace

    @contextmanager
    def pinned(self, owner: str, now: datetime, say: Progress) -> Iterator[tuple[PinnedMaster, ...]]:
        with self.masters.pinned(owner, now, say) as found:
            yield tuple(replace(one, place=SlowPlace(one.place, self.pace)) for one in found)
