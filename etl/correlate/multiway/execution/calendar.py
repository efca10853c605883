"""What a run knows about its batches before it reads them: which plan, how far event time has come, how many tuples.

A batch's entry is written once, when the batch begins, and never changes. All that a step does depends on entries and
files only, so a repeated step writes the same file.

    horizon    the largest event time of all streams up to and including the batch
    watermark  the horizon before the batch, less the lateness: what is older came too late, windows that ended are over
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np

from etl.correlate.multiway import layout
from etl.correlate.multiway.codes import I64
from etl.correlate.multiway.execution.folder import SiteFolder
from etl.correlate.multiway.query import JoinQuery, TimeWindow, TupleWindow

BEGINNING = -(2**62)


@dataclass(frozen=True, slots=True)
class Entry:
    """A batch. `rows` and `latest` are by stream: tuples that take part, and the largest event time among them."""

    number: int
    epoch: int
    horizon: int
    rows: tuple[int, ...]
    latest: tuple[int, ...]


class Calendar:
    """The entries, kept as one small file per batch under the coordinator's folder."""

    def __init__(self, query: JoinQuery, folder: SiteFolder) -> None:
        self._query, self._folder = query, folder
        names = folder.names(self._place())
        self.entries = [_entry(folder.read(f"{self._place()}/{name}")) for name in names if name.endswith(".json")]
        self._live: dict[int, int] = {}
        self._before = np.zeros((1, len(query.streams)), np.int64)
        for entry in self.entries:
            self._count(entry)

    def _place(self) -> str:
        return f"{self._query.name}/batches"

    def append(self, entry: Entry) -> None:
        assert entry.number == len(self.entries), "batches follow one another"
        content = {name: getattr(entry, name) for name in Entry.__slots__}
        self._folder.write(f"{self._place()}/{entry.number:012d}.json", json.dumps(content).encode())
        self.entries.append(entry)
        self._count(entry)

    def _count(self, entry: Entry) -> None:
        self._before = np.vstack([self._before, self._before[-1] + np.array(entry.rows, np.int64)])

    def horizon(self, batch: int) -> int:
        return self.entries[batch].horizon if batch >= 0 else BEGINNING

    def watermark(self, batch: int) -> int:
        before = self.horizon(batch - 1)
        lateness = TimeWindow(self._query.lateness).microseconds
        return before - lateness if before > BEGINNING else BEGINNING

    def first_sequence(self, stream: int, batch: int) -> int:
        return int(self._before[batch, stream])

    def closed(self, stream: int, batch: int) -> tuple[int, int]:
        """The tuples (by their place in the stream) that a batch pushes out of a tuple window: from, up to."""
        window = self._query.streams[stream].window
        assert isinstance(window, TupleWindow), "only tuple windows are closed by tuples"
        first, after = (max(0, int(self._before[n, stream]) - window.tuples) for n in (batch, batch + 1))
        return first, after

    def ends(self, stream: int, batch: int, starts: I64) -> I64:
        """Until when the tuples that a batch pushes out were in the window; `starts` are the batch's own.

        A tuple leaves just before the tuple that pushes it out arrives, but not before it came itself, nor before
        what was there when the batch began: those combinations have been made.
        """
        first, after = self.closed(stream, batch)
        ends = np.maximum(starts[len(starts) - (after - first) :] - 1, self.horizon(batch - 1))
        own = max(after - self.first_sequence(stream, batch), 0)  # pushed out by tuples of their own batch
        ends[len(ends) - own :] = np.maximum(ends[len(ends) - own :], starts[:own])
        return ends

    def first_live(self, batch: int) -> int:
        """The first batch with a tuple that may still be in its window when `batch` begins."""
        if batch not in self._live:
            self._live[batch] = min(self._first_live(stream, batch) for stream in range(len(self._query.streams)))
        return self._live[batch]

    def _first_live(self, stream: int, batch: int) -> int:
        watermark, window = self.watermark(batch), self._query.streams[stream].window
        for number in range(self._live.get(batch - 1, 0), batch):
            entry = self.entries[number]
            if not entry.rows[stream]:
                continue
            if isinstance(window, TimeWindow):
                if entry.latest[stream] + window.microseconds >= watermark:
                    return number
            elif self._leaves(stream, number, window.tuples, batch) >= watermark:
                return number
        return batch

    def _leaves(self, stream: int, number: int, tuples: int, batch: int) -> int:
        """When the last tuple of a batch leaves a tuple window, at the latest."""
        pushed = np.searchsorted(self._before[: batch + 1, stream], self._before[number + 1, stream] + tuples)
        return self.horizon(int(pushed) - 1) if pushed <= batch else layout.FOREVER


def _entry(content: bytes) -> Entry:
    one = json.loads(content)
    return Entry(one["number"], one["epoch"], one["horizon"], tuple(one["rows"]), tuple(one["latest"]))
