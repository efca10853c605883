"""The watermark of one stream: event-time progress, late tuples, and expiry of the other stream's state.

    watermark = largest event time seen - lateness        of this stream, as of the end of a batch

A tuple below its own stream's watermark is late: it goes to the correlation's `late` table, not into the join. So every
future probe of a stream is at or above that stream's watermark, as theorem 1 requires to expire state of the *other*
stream. If a stream falls silent, the other one's state is kept: its next tuple may still match it (ADR 31).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from etl.correlate.errors import WindowRefused
from etl.correlate.model import FIRST, I64, Tuples, Window


@dataclass(frozen=True, slots=True)
class Watermark:
    lateness_us: int = 0
    largest: int = int(FIRST)

    def __post_init__(self) -> None:
        if self.lateness_us < 0:
            raise WindowRefused("lateness", f"{self.lateness_us} microseconds")

    @property
    def value(self) -> np.int64:
        """The watermark; FIRST before the first tuple."""
        return FIRST if self.largest == FIRST else np.int64(max(int(FIRST), self.largest - self.lateness_us))

    def advanced(self, times: I64) -> Watermark:
        """The watermark after a batch with these event times."""
        return replace(self, largest=max(self.largest, int(times.max()))) if len(times) else self

    def split(self, tuples: Tuples) -> tuple[Tuples, Tuples]:
        """Split into on-time and late tuples."""
        late = tuples.times < self.value
        return (tuples.take(~late), tuples.take(late)) if late.any() else (tuples, tuples.take(np.zeros(0, np.int64)))


def joined_watermark(window: Window, left: np.int64, right: np.int64) -> np.int64:
    """A lower bound of the earlier event time of future pairs: a new tuple joins at most a window back."""
    reaches = ((left, window.lower_us), (right, None if window.upper_us is None else -window.upper_us))
    bounds = [_shifted(watermark, reach) for watermark, reach in reaches]
    return np.int64(min(bounds))


def _shifted(watermark: np.int64, reach: int | None) -> int:
    if watermark == FIRST or reach is None:
        return int(FIRST)
    return max(int(FIRST), int(watermark) + min(0, reach))
