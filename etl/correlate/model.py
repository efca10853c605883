"""The data types exchanged between the parts of a correlation.

    Tuples   routed data: row references and the thin columns a unit needs, nothing else
             refs   (n, k): one reference per stream in a tuple; k > 1 for results of an earlier join
             times  event time in microseconds, of the earliest part
             places position in the global order (dispatcher, clock) of this batch; unique over both streams
             lo, hi lanes of the equality key                      empty without equalities
             value  the sort key of a sorted sub-index             empty without a band
             low, high  the range of the *other* stream's `value`  empty without a band
    Pairs    the result of a join: the references of both sides
    Window   the allowed distances of event times

`value`, `low` and `high` are int64 for every SQL type: `order_preserving` maps floats.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.correlate.errors import WindowRefused

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
FIRST, LAST = np.int64(-(2**63)), np.int64(2**63 - 1)  # "no bound" and "no watermark yet"
_ROW_BITS, _CLOCK_BITS = 32, 40


def _no_lanes() -> U64:
    return np.zeros(0, np.uint64)


def _no_numbers() -> I64:
    return np.zeros(0, np.int64)


def opposite(side: Side) -> Side:
    return "right" if side == "left" else "left"


def references(segment: int, rows: npt.ArrayLike) -> I64:
    """Row references: the segment in the upper half, the row in the lower."""
    return (np.int64(segment) << _ROW_BITS) | np.asarray(rows, np.int64)


def segments_of(refs: I64) -> I64:
    return refs >> _ROW_BITS


def rows_of(refs: I64) -> I64:
    return refs & np.int64((1 << _ROW_BITS) - 1)


def places(dispatcher: int, count: int, clock: int = 0) -> I64:
    """Places of tuples that one dispatcher sends in this order, from its clock value `clock` on."""
    return (np.int64(dispatcher) << _CLOCK_BITS) | np.arange(clock, clock + count, dtype=np.int64)


def shifted(numbers: I64, by: int | None, unbounded: np.int64) -> I64:
    """Add a constant, saturating at int64; all `unbounded` if `by` is None."""
    if by is None:
        return np.full(len(numbers), unbounded)
    moved = numbers + np.int64(by)
    wrapped = (moved < numbers) != (by < 0) if by else np.zeros(len(numbers), bool)
    return np.where(wrapped, LAST if by > 0 else FIRST, moved)


def order_preserving(numbers: npt.NDArray[np.float64]) -> I64:
    """Map floats to int64 in the same order; -0.0 equals 0.0."""
    bits = (numbers + 0.0).view(np.int64)
    return np.asarray(bits ^ ((bits >> 63) & LAST))


@dataclass(frozen=True, slots=True)
class Window:
    """Pairs with lower <= right.time - left.time <= upper, in microseconds; None is no bound."""

    lower_us: int | None
    upper_us: int | None

    def __post_init__(self) -> None:
        if self.lower_us is not None and self.upper_us is not None and self.lower_us > self.upper_us:
            raise WindowRefused("the window", f"from {self.lower_us} to {self.upper_us} microseconds")

    @classmethod
    def within(cls, length_us: int) -> Window:
        """A sliding window, symmetric in both streams."""
        if length_us <= 0:
            raise WindowRefused("within", f"{length_us} microseconds")
        return cls(-length_us, length_us)

    @classmethod
    def full_history(cls) -> Window:
        return cls(None, None)

    @property
    def bounded(self) -> bool:
        return self.lower_us is not None or self.upper_us is not None

    @property
    def length_us(self) -> int | None:
        """From bound to bound, None if one is missing."""
        return None if self.lower_us is None or self.upper_us is None else self.upper_us - self.lower_us

    def stored_range(self, stored: Side, times: I64) -> tuple[I64, I64]:
        """The range of stored times that each probe may match."""
        low, high = self.lower_us, self.upper_us
        if stored == "left":
            low, high = (None if high is None else -high), (None if low is None else -low)
        return shifted(times, low, FIRST), shifted(times, high, LAST)

    def expired_before(self, stored: Side, watermark: np.int64) -> np.int64:
        """Stored tuples earlier than this can match no probe from the watermark on (theorem 1)."""
        if watermark == FIRST:
            return FIRST
        return np.int64(self.stored_range(stored, np.array([watermark]))[0][0])

    def meets(self, other: Window) -> Window:
        """The intersection of both windows."""
        lower = [one.lower_us for one in (self, other) if one.lower_us is not None]
        upper = [one.upper_us for one in (self, other) if one.upper_us is not None]
        return Window(max(lower, default=None), min(upper, default=None))

    def flipped(self) -> Window:
        """The same window with left and right swapped."""
        lower, upper = self.lower_us, self.upper_us
        return Window(None if upper is None else -upper, None if lower is None else -lower)


@dataclass(frozen=True, slots=True)
class Tuples:
    refs: I64
    times: I64
    places: I64
    lo: U64 = field(default_factory=_no_lanes)
    hi: U64 = field(default_factory=_no_lanes)
    value: I64 = field(default_factory=_no_numbers)
    low: I64 = field(default_factory=_no_numbers)
    high: I64 = field(default_factory=_no_numbers)

    def __post_init__(self) -> None:
        if self.refs.ndim == 1:
            object.__setattr__(self, "refs", self.refs[:, None])
        for part in fields(self):
            length = len(getattr(self, part.name))
            assert length in (len(self.times), 0), f"{part.name} has {length} entries for {len(self.times)} tuples"

    def __len__(self) -> int:
        return len(self.times)

    @property
    def nbytes(self) -> int:
        return sum(int(getattr(self, part.name).nbytes) for part in fields(self))

    def take(self, rows: npt.NDArray[Any]) -> Tuples:
        """Select tuples by position or mask."""
        if len(self) == 0:
            return self
        columns = {part.name: getattr(self, part.name) for part in fields(self)}
        return Tuples(**{name: column[rows] if len(column) else column for name, column in columns.items()})

    @staticmethod
    def concat(parts: list[Tuples]) -> Tuples:
        """Concatenate tuples of one stream; at least one part."""
        filled = [part for part in parts if len(part)] or parts[:1]
        names = [part.name for part in fields(Tuples)]
        return Tuples(**{name: np.concatenate([getattr(part, name) for part in filled]) for name in names})

    def in_order(self) -> Tuples:
        """Sorted by place, the order in which every unit processes them."""
        return self.take(np.argsort(self.places, kind="stable"))

    def placed(self, positions: I64) -> Tuples:
        return replace(self, places=positions)

    def to_batch(self) -> pa.RecordBatch:
        """As Arrow, for a shuffle."""
        columns = {f"ref{i}": self.refs[:, i] for i in range(self.refs.shape[1])}
        columns |= {part.name: getattr(self, part.name) for part in fields(self) if part.name != "refs"}
        return pa.record_batch({name: pa.array(column) for name, column in columns.items() if len(column) == len(self)})

    @staticmethod
    def from_batch(batch: pa.RecordBatch) -> Tuples:
        columns = {name: np.asarray(batch.column(name)) for name in batch.schema.names}
        names = sorted((name for name in columns if name.startswith("ref")), key=lambda name: int(name[3:]))
        refs = [columns.pop(name) for name in names]
        return Tuples(refs=np.stack(refs, axis=1), **columns)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Joined pairs, by row: references of either side (n, k), the earliest event time, the place of the later tuple."""

    left: I64
    right: I64
    times: I64
    places: I64

    def __len__(self) -> int:
        return len(self.left)

    def take(self, rows: npt.NDArray[Any]) -> Pairs:
        return Pairs(self.left[rows], self.right[rows], self.times[rows], self.places[rows])

    @staticmethod
    def concat(parts: list[Pairs]) -> Pairs:
        return Pairs(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Pairs)))

    @staticmethod
    def none(left_streams: int = 1, right_streams: int = 1) -> Pairs:
        nothing = np.zeros(0, np.int64)
        return Pairs(nothing.reshape(0, left_streams), nothing.reshape(0, right_streams), nothing, nothing)

    @property
    def refs(self) -> I64:
        """One row of references per pair: the left ones, then the right ones."""
        return np.concatenate([self.left, self.right], axis=1)
