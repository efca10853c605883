"""Windows over event time or over the number of a document: tumbling, or sliding in whole slots.

    slide = size     tumbling      |  slot 0  |  slot 1  |  slot 2  |          documents join inside a slot
    slide = size/3   sliding       | 0 | 1 | 2 | 3 | 4 |                       … inside any three slots in a row
                                   └──window──┘

Two documents are in a common window if and only if their slots are less than size/slide apart. A pair is reported
once, not once for each window that contains it. State is one join per slot, so a slot expires as a whole (ADR 39).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from etl.correlate.documents.dictionary import I64
from etl.correlate.documents.errors import InvalidOption
from etl.correlate.documents.joining.expand import Made
from etl.correlate.documents.joining.fp_join import UNBOUNDED, FPTreeJoin, total
from etl.correlate.documents.model import Documents


@dataclass(frozen=True, slots=True)
class Window:
    """Size and slide, in microseconds of event time or in documents."""

    size: int
    slide: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InvalidOption("size", self.size, "at least 1")
        if self.slide < 1 or self.size % self.slide:
            raise InvalidOption("slide", self.slide, f"a whole part of the window's size {self.size}")

    @staticmethod
    def tumbling(size: int) -> Window:
        return Window(size, size)

    @property
    def slots(self) -> int:
        """Slots per window."""
        return self.size // self.slide

    def slot(self, places: I64) -> I64:
        """The slot of event times, or of numbers in the stream."""
        return places // self.slide


@dataclass(frozen=True, slots=True)
class Inserted:
    """The pairs of a batch, and which of its documents came after their windows had expired."""

    made: Made
    late: npt.NDArray[np.bool_]


@dataclass(slots=True)
class WindowJoin:
    """Joins a stream within windows, one FPTreeJoin per slot. Order does not matter until a slot expires."""

    window: Window
    joins: dict[int, FPTreeJoin] = field(default_factory=dict)
    first_slot: int | None = None  # earlier slots have expired

    def insert(self, documents: Documents, places: I64, at_most: int = UNBOUNDED) -> Inserted:
        """Join documents, at their event times or numbers in the stream, with all others in a common window."""
        slots = self.window.slot(places)
        late = slots < self.first_slot if self.first_slot is not None else np.zeros(len(slots), np.bool_)
        made: list[Made] = []
        for slot in np.unique(slots[~late]).tolist():
            part = documents.take(np.flatnonzero(slots == slot))
            for other, join in self.joins.items():
                if other != slot and abs(other - slot) < self.window.slots:
                    made.append(join.probe(part, at_most=at_most - sum(len(one.pairs) for one in made)))
            own = self.joins.setdefault(slot, FPTreeJoin())
            made.append(own.insert(part, at_most=at_most - sum(len(one.pairs) for one in made)))
        return Inserted(total(made), late)

    def expire(self, place: int) -> int:
        """Expire slots that share no window with anything at or after `place`; returns how many."""
        first = place // self.window.slide - self.window.slots + 1
        self.first_slot = first if self.first_slot is None else max(first, self.first_slot)
        gone = [slot for slot in self.joins if slot < self.first_slot]
        for slot in gone:
            del self.joins[slot]
        return len(gone)
