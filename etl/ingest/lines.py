"""Lines of a text file, found without copying them.

    block ──▶ data        {"id":1}\\r\\n  \\n{"id":2}\\n …
              start, end  where each line that is not blank begins and ends
              number      its number in the file; blank lines count, too
              too_long    longer than LONGEST_LINE: only its beginning is kept

A line ends at `\\n` or `\\r\\n`. A line of nothing but white space is blank: no event, yet it has a number. The number
of lines that are not blank is what "lines read" means. A line longer than LONGEST_LINE is never blank, whatever it
holds, and is never parsed; `LineReader` forgets its middle, so that memory is bounded by a block and one line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.jit import kernel
from etl.ingest.kernels.spans import is_space
from etl.ingest.kernels.utf8 import Bytes

LONGEST_LINE = 65_536
"""Bytes. An event has a few hundred; this bounds the size of waiting events."""
KEPT_OF_TOO_LONG = 1_024
"""Bytes kept of a line that is too long, to show its beginning."""
_LARGEST_BLOCK = 2**31 - 1

Data: TypeAlias = bytes | bytearray | memoryview | pa.Buffer
I32 = npt.NDArray[np.int32]
I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that are not blank, as spans of `data`."""

    data: Bytes
    start: I32
    end: I32
    number: I64
    too_long: Mask

    def __len__(self) -> int:
        return len(self.start)

    def without_first(self) -> Lines:
        """All lines but the first, which is a header."""
        return Lines(self.data, self.start[1:], self.end[1:], self.number[1:], self.too_long[1:])

    @property
    def raw(self) -> pa.Array:
        """The lines themselves, without their ends."""
        places = np.empty(2 * len(self) + 1, np.int32)  # a line, the gap behind it, the next line, …
        places[:-1:2], places[1::2], places[-1] = self.start, self.end, len(self.data)
        both = pa.Array.from_buffers(pa.binary(), 2 * len(self), [None, pa.py_buffer(places), pa.py_buffer(self.data)])
        return both.take(pa.array(np.arange(0, 2 * len(self), 2)))


def split(data: Data, first_line: int) -> Lines:
    """The lines of a block that begins with a line's first byte; its last line needs no end."""
    lines, _ = _split(_as_bytes(data), first_line, cut=False)
    return lines


def of_values(values: pa.Array, number: I64) -> Lines:
    """Binary values as lines: each value is one line, never blank. `number`: their line numbers."""
    data = _read_only(np.frombuffer(values.buffers()[2] or b"", np.uint8))
    places = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset)
    start, end = places[:-1].copy(), places[1:].copy()
    too_long = end - start > LONGEST_LINE
    end[too_long] = start[too_long] + KEPT_OF_TOO_LONG
    return Lines(data, start, end, number, too_long)


class LineReader:
    """The lines of a file that is read in blocks of any size.

    for block in blocks:
        lines = reader.feed(block)      # the lines that are complete
    lines = reader.finish()             # a last line without an end
    """

    def __init__(self, first_line: int = 1) -> None:
        self._next_line = first_line
        self._tail = b""  # of the last block: a line that has not ended
        self._cut = False  # the tail is the beginning of a line that is too long; the rest is being dropped

    def feed(self, block: Data) -> Lines:
        """The lines that end in this block."""
        data = _as_bytes(block)
        last = _last_newline(data)
        if last < 0:
            self._keep(data)
            return split(b"", self._next_line)
        begin = _first_newline(data) if self._cut else 0
        whole, rest = data[begin : last + 1], data[last + 1 :]
        if self._tail:
            whole = _read_only(np.concatenate([np.frombuffer(self._tail, np.uint8), whole]))
        lines, self._next_line = _split(whole, self._next_line, self._cut)
        self._tail, self._cut = b"", False
        self._keep(rest)
        return lines

    def finish(self) -> Lines:
        """The last line of a file that does not end with a line's end."""
        return self.feed(b"\n") if self._tail else split(b"", self._next_line)

    def _keep(self, rest: Bytes) -> None:
        if self._cut:
            return
        # One byte more than a line may have: the last one may be a carriage return.
        if len(self._tail) + len(rest) > LONGEST_LINE + 1:
            self._tail = (self._tail + rest[:KEPT_OF_TOO_LONG].tobytes())[:KEPT_OF_TOO_LONG]
            self._cut = True
        else:
            self._tail += rest.tobytes()


def _as_bytes(data: Data) -> Bytes:
    array = np.frombuffer(data, np.uint8)
    assert len(array) <= _LARGEST_BLOCK, "a block has at most 2 GiB; read the file in blocks"
    return _read_only(array)


def _read_only(array: Bytes) -> Bytes:
    """Kernels are compiled once, for arrays that they cannot write."""
    array.flags.writeable = False
    return array


def _first_newline(data: Bytes) -> int:
    return int(np.argmax(data == 0x0A))


def _last_newline(data: Bytes) -> int:
    """Search backwards in growing steps: most blocks end near a line end."""
    stop, step = len(data), 4096
    while stop > 0:
        begin = max(0, stop - step)
        found = np.flatnonzero(data[begin:stop] == 0x0A)
        if len(found):
            return begin + int(found[-1])
        stop, step = begin, step * 4
    return -1


def _split(data: Bytes, first_line: int, cut: bool) -> tuple[Lines, int]:
    """The lines, and the number of the next one. `cut`: the first line is the beginning of one that is too long."""
    newlines = np.flatnonzero(data == 0x0A).astype(np.int32)
    open_end = len(data) > 0 and data[-1] != 0x0A
    end = np.append(newlines, np.int32(len(data))) if open_end else newlines
    start = np.zeros(len(end), np.int32)
    start[1:] = newlines[: len(end) - 1] + 1
    end = end.copy()
    keep = np.empty(len(end), np.bool_)
    too_long = np.empty(len(end), np.bool_)
    _classify(data, start, end, cut, keep, too_long)
    number = first_line + np.arange(len(end), dtype=np.int64)
    following = first_line + len(end)
    if keep.all():
        return Lines(data, start, end, number, too_long), following
    return Lines(data, start[keep], end[keep], number[keep], too_long[keep]), following


@kernel
def _classify(data: Bytes, start: I32, end: I32, cut: bool, keep: Mask, too_long: Mask) -> None:
    """Drop carriage returns, cut what is too long, and see which lines are blank."""
    for line in range(len(start)):
        was_cut = cut and line == 0
        if not was_cut and end[line] > start[line] and data[end[line] - 1] == 0x0D:
            end[line] -= 1
        too_long[line] = was_cut or end[line] - start[line] > LONGEST_LINE
        if too_long[line]:
            keep[line] = True
            end[line] = min(end[line], start[line] + KEPT_OF_TOO_LONG)
            continue
        i = start[line]
        while i < end[line] and is_space(data[i]):
            i += 1
        keep[line] = i < end[line]
