"""The stream buffer: tuples that have arrived and are not probed yet, in order of arrival."""

from __future__ import annotations

from collections import deque

from etl.enrich.step import StreamTuples


class StreamBuffer:
    """A queue of tuples, stored in runs."""

    def __init__(self) -> None:
        self._runs: deque[StreamTuples] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        return sum(run.tickets.nbytes + run.keys.nbytes for run in self._runs)

    def append(self, tuples: StreamTuples) -> None:
        if len(tuples):
            self._runs.append(tuples)
            self._size += len(tuples)

    def first(self, most: int) -> StreamTuples:
        """The oldest tuples, at most `most` and of one run, without removing them."""
        return self._runs[0].take(slice(0, most))

    def drop_first(self, count: int) -> None:
        """Removes the oldest tuples, all of the first run."""
        run = self._runs.popleft()
        if count < len(run):
            self._runs.appendleft(run.take(slice(count, len(run))))
        self._size -= count

    def take_first(self, count: int) -> list[StreamTuples]:
        """Removes and returns the oldest tuples, at most `count`."""
        taken = []
        while count > 0 and self._runs:
            part = self.first(count)
            self.drop_first(len(part))
            taken.append(part)
            count -= len(part)
        return taken

    def take_last(self, count: int) -> list[StreamTuples]:
        """Removes and returns the newest tuples, at most `count`."""
        taken = []
        while count > 0 and self._runs:
            run = self._runs.pop()
            part = run.take(slice(max(0, len(run) - count), len(run)))
            if len(part) < len(run):
                self._runs.append(run.take(slice(0, len(run) - len(part))))
            taken.append(part)
            self._size -= len(part)
            count -= len(part)
        return taken[::-1]
