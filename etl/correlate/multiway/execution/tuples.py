"""Joined tuples in memory: columns, windows, and the codes of the attributes that are still to be joined on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from etl.correlate.multiway import layout
from etl.correlate.multiway.codes import I64, Codes, encode
from etl.correlate.multiway.query import JoinQuery, TimeWindow


@dataclass(frozen=True)
class Tuples:
    """Rows of one set of streams. `end` is the window's end as known so far; `codes` are by attribute."""

    table: pa.Table
    start: I64
    end: I64
    codes: dict[int, Codes]

    def __len__(self) -> int:
        return len(self.start)

    def take(self, rows: I64) -> Tuples:
        codes = {n: Codes(one.values[rows], one.exact) for n, one in self.codes.items()}
        return Tuples(self.table.take(pa.array(rows)), self.start[rows], self.end[rows], codes)

    def where(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Tuples:
        return self if chosen.all() else self.take(np.flatnonzero(chosen))

    def with_end(self, end: I64) -> Tuples:
        return Tuples(self.table, self.start, end, self.codes)


def concat(parts: Sequence[Tuples], like: Tuples) -> Tuples:
    """All rows of the parts; `like` gives the columns if there is none."""
    filled = [part for part in parts if len(part)] or [like.take(np.empty(0, np.int64))]
    if len(filled) == 1:
        return filled[0]
    codes = {
        n: Codes(np.concatenate([part.codes[n].values for part in filled]), one.exact)
        for n, one in filled[0].codes.items()
    }
    return Tuples(
        pa.concat_tables([part.table for part in filled]),
        np.concatenate([part.start for part in filled]),
        np.concatenate([part.end for part in filled]),
        codes,
    )


def load(query: JoinQuery, streams: int, table: pa.Table) -> Tuples:
    """Load tuples from a file's table. The end of a tuple window is open, and is narrowed later."""
    start = table.column(layout.START).to_numpy()
    if layout.carries_end(streams):
        end = table.column(layout.END).to_numpy()
    else:
        window = query.streams[streams.bit_length() - 1].window
        end = start + window.microseconds if isinstance(window, TimeWindow) else np.full(len(start), layout.FOREVER)
    codes = {n: encode(table.column(layout.key(n))) for n in query.open_attributes(streams)}
    return Tuples(table, start, end, codes)


def empty(query: JoinQuery, streams: int) -> Tuples:
    return load(query, streams, layout.schema(query, streams).empty_table())
