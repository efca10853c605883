"""The entries of a run's batches, known before they are read: plan, event-time progress, numbers of tuples.

A batch's entry is written once, when the batch begins, and is immutable. A step depends on entries and files only, so a
repeated step writes the same file. Entries of batches that no window reaches are deleted.

    horizon    the largest event time of all streams up to and including the batch
    watermark  the horizon before the batch, less the lateness: older tuples are late, earlier windows are closed
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from etl.correlate.multiway import layout
from etl.correlate.multiway.codes import I64
from etl.correlate.multiway.execution.book import Book, Json
from etl.correlate.multiway.query import JoinQuery, TimeWindow, TupleWindow

BEGINNING = -(2**62)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch's input from a stream: number of participating tuples, and an upper bound of their event times.

    The number must be exact for a stream with a tuple window; otherwise only zero or non-zero matters.
    """

    rows: int
    latest: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A batch. `rows`, `latest` and `before` are by stream: as in `Arrival`, and the tuples of all batches before."""

    number: int
    epoch: int
    horizon: int
    rows: tuple[int, ...]
    latest: tuple[int, ...]
    before: tuple[int, ...]


class Calendar:
    """The entries that are not deleted, from `first` on."""

    def __init__(self, query: JoinQuery, book: Book) -> None:
        self._query, self._book = query, book
        self._entries = [_entry(content) for content in book.entries()]
        self._live: dict[int, int] = {}
        last = self._entries[-1] if self._entries else None
        after = [0] * len(query.streams) if last is None else np.add(last.before, last.rows)
        self._before = np.array([*(one.before for one in self._entries), after], np.int64)

    @property
    def first(self) -> int:
        """The first batch that is not deleted."""
        return self._entries[0].number if self._entries else 0

    @property
    def following(self) -> int:
        """The number of the next batch."""
        return self.first + len(self._entries)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def entry(self, number: int) -> Entry:
        return self._entries[number - self.first]

    def begin(self, epoch: int, arrivals: list[Arrival]) -> Entry:
        """Begin the next batch, with a plan."""
        number = self.following
        horizon = max(self.horizon(number - 1), *(one.latest for one in arrivals if one.rows), BEGINNING)
        entry = Entry(
            number, epoch, horizon, tuple(one.rows for one in arrivals), tuple(one.latest for one in arrivals),
            tuple(int(count) for count in self._before[-1]),
        )  # fmt: skip
        self._book.add_entry(number, asdict(entry))
        self._entries.append(entry)
        self._before = np.vstack([self._before, self._before[-1] + np.array(entry.rows, np.int64)])
        return entry

    def forget(self, before: int) -> None:
        """Delete entries of earlier batches; the newest stays."""
        leave = min(max(before - self.first, 0), len(self._entries) - 1)
        if leave > 0:
            del self._entries[:leave]
            self._before = self._before[leave:]

    def horizon(self, batch: int) -> int:
        return self.entry(batch).horizon if batch >= self.first and self._entries else BEGINNING

    def watermark(self, batch: int) -> int:
        before = self.horizon(batch - 1)
        lateness = TimeWindow(self._query.lateness).microseconds
        return before - lateness if before > BEGINNING else BEGINNING

    def first_sequence(self, stream: int, batch: int) -> int:
        return int(self._before[batch - self.first, stream])

    def closed(self, stream: int, batch: int) -> tuple[int, int]:
        """The range of tuples (by number in the stream) that a batch evicts from a tuple window."""
        window = self._query.streams[stream].window
        assert isinstance(window, TupleWindow), "only tuple windows are closed by tuples"
        first, after = (max(0, self.first_sequence(stream, number) - window.tuples) for number in (batch, batch + 1))
        return first, after

    def ends(self, stream: int, batch: int, starts: I64) -> I64:
        """When the tuples that a batch evicts left the window; `starts` are the batch's own tuples' starts.

        A tuple leaves just before the tuple that evicts it arrives, but not before its own arrival, nor before the
        tuples present when the batch began: those combinations have been produced.
        """
        first, after = self.closed(stream, batch)
        ends = np.maximum(starts[len(starts) - (after - first) :] - 1, self.horizon(batch - 1))
        own = max(after - self.first_sequence(stream, batch), 0)  # evicted by tuples of their own batch
        ends[len(ends) - own :] = np.maximum(ends[len(ends) - own :], starts[:own])
        return ends

    def first_live(self, batch: int) -> int:
        """The first batch with a tuple that may still be in its window when `batch` begins."""
        if batch not in self._live:
            self._live[batch] = min(self._first_live(stream, batch) for stream in range(len(self._query.streams)))
        return self._live[batch]

    def _first_live(self, stream: int, batch: int) -> int:
        watermark, window = self.watermark(batch), self._query.streams[stream].window
        for number in range(max(self._live.get(batch - 1, 0), self.first), batch):
            entry = self.entry(number)
            if not entry.rows[stream]:
                continue
            if isinstance(window, TimeWindow):
                if entry.latest[stream] + window.microseconds >= watermark:
                    return number
            elif self._leaves(stream, number, window.tuples, batch) >= watermark:
                return number
        return batch

    def _leaves(self, stream: int, number: int, tuples: int, batch: int) -> int:
        """The latest time at which the last tuple of a batch leaves a tuple window."""
        counts = self._before[: batch + 1 - self.first, stream]
        pushed = self.first + int(np.searchsorted(counts, self.first_sequence(stream, number + 1) + tuples))
        return self.horizon(pushed - 1) if pushed <= batch else layout.FOREVER


def _entry(one: Json) -> Entry:
    by_stream = (tuple(one[name]) for name in ("rows", "latest", "before"))
    return Entry(one["number"], one["epoch"], one["horizon"], *by_stream)
