"""Which lines of a batch are read, landed ones and those of the backlog: all, except in the search for poison lines.

lines ─┬─ kept    parsed as usual
       └─ aside   poison: never parsed, refused with their bytes
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.contract.model import Stream
from etl.ingest.events import Events, from_columns
from etl.ingest.lines import Lines
from etl.ingest.typed import Column

POISON: Final = "poison"
"""The reason of poison lines, which crash tasks."""
WHOLE_FILE: Final = 0
"""Stands for a Parquet file as such, before its rows: where it is poison, nothing of the file is decoded."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LineChoice:
    """Lines by the ordinal of their slice, rows of the backlog by the path of their file.

    `only` leaves out all other lines of a slice or file, for a probe whose result is discarded.
    """

    only: Mapping[int | str, tuple[int, int]] = field(default_factory=dict)  # first and last line
    poison: Mapping[int | str, frozenset[int]] = field(default_factory=dict)
    settled: Mapping[int | str, frozenset[int]] = field(default_factory=dict)  # rows of the backlog that wait no longer

    def masks(self, source: int | str, number: npt.NDArray[np.int64]) -> tuple[Mask, Mask]:
        """Which of these lines to parse, and which to set aside."""
        wanted = np.ones(len(number), np.bool_)
        if source in self.only:
            first, last = self.only[source]
            wanted = (number >= first) & (number <= last)
        if source in self.settled:
            wanted &= ~np.isin(number, sorted(self.settled[source]))
        deadly = np.isin(number, sorted(self.poison.get(source, ())))
        return wanted & ~deadly, wanted & deadly

    def split(self, ordinal: int, lines: Lines) -> tuple[Lines, Lines | None]:
        """The lines to parse, and those to set aside."""
        if ordinal not in self.only and ordinal not in self.poison:
            return lines, None
        kept, aside = self.masks(ordinal, lines.number)
        return _taken(lines, kept), _taken(lines, aside)

    def decodes(self, ordinal: int) -> bool:
        """Whether a Parquet file is decoded at all: as such it is not poison."""
        return WHOLE_FILE not in self.poison.get(ordinal, ())


ALL_LINES = LineChoice()


def poison_events(lines: Lines, stream: Stream) -> Events:
    """Poison lines, as refused events."""
    return refused_events(lines, stream, POISON)


def _taken(lines: Lines, rows: Mask) -> Lines:
    return Lines(lines.data, lines.start[rows], lines.end[rows], lines.number[rows], lines.too_long[rows])


def refused_events(lines: Lines, stream: Stream, reason: str) -> Events:
    """Lines that are not parsed, as refused events."""
    n = len(lines)
    all_of_them, none_of_them = np.ones(n, np.bool_), np.zeros(n, np.bool_)
    columns = [Column(pa.nulls(n, one.type), all_of_them, none_of_them) for one in stream.fields]
    broken = ((reason, all_of_them),)
    return from_columns(columns, pa.nulls(n, pa.string()), stream.fields, broken, lines.raw, lines.number)
