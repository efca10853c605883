"""Which lines of a batch's slices are read: all of them, except during the search for poison lines.

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


@dataclass(frozen=True, slots=True)
class LineChoice:
    """Lines by the ordinal of their slice; `only` leaves out all others, for a probe whose result is discarded."""

    only: Mapping[int, tuple[int, int]] = field(default_factory=dict)  # first and last line
    poison: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def split(self, ordinal: int, lines: Lines) -> tuple[Lines, Lines | None]:
        """The lines to parse, and those to set aside."""
        bounds, poison = self.only.get(ordinal), self.poison.get(ordinal)
        if bounds is not None:
            lines = _taken(lines, (lines.number >= bounds[0]) & (lines.number <= bounds[1]))
        if not poison:
            return lines, None
        deadly = np.isin(lines.number, sorted(poison))
        return _taken(lines, ~deadly), _taken(lines, deadly)


ALL_LINES = LineChoice()


def poison_events(lines: Lines, stream: Stream) -> Events:
    """Poison lines, as refused events."""
    return refused_events(lines, stream, POISON)


def _taken(lines: Lines, rows: npt.NDArray[np.bool_]) -> Lines:
    return Lines(lines.data, lines.start[rows], lines.end[rows], lines.number[rows], lines.too_long[rows])


def refused_events(lines: Lines, stream: Stream, reason: str) -> Events:
    """Lines that are not parsed, as refused events."""
    n = len(lines)
    all_of_them, none_of_them = np.ones(n, np.bool_), np.zeros(n, np.bool_)
    columns = [Column(pa.nulls(n, one.type), all_of_them, none_of_them) for one in stream.fields]
    broken = ((reason, all_of_them),)
    return from_columns(columns, pa.nulls(n, pa.string()), stream.fields, broken, lines.raw, lines.number)
