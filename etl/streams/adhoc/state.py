"""The state of ad-hoc queries between batches: event-time progress, and the segments in use.

    slot        event time / slot length
    first slot  tuples of earlier slots are late: the slowest stream's newest time less the lateness, and never more
                than the retention behind the fastest stream's. It never goes back.
    in use      segments with tuples that may still join a tuple of the first slot or later

All of it depends on the tuples only, not on the queries: a query has the same results alone and beside others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from etl.settings import Settings
from etl.streams.storage.log import Segment

_OUT_AFTER, _IN_AFTER = 2, 10  # consecutive batches that suit more, or fewer, shares before scaling


@dataclass(frozen=True, slots=True)
class EventClock:
    """Maps event times to slots, and decides when a tuple is late."""

    slot_us: int = 10_000_000
    lateness_us: int = 60_000_000
    retention_us: int = 3_600_000_000

    @classmethod
    def of(cls, settings: Settings) -> EventClock:
        seconds = settings.query_slot_s, settings.query_lateness_s, settings.query_retention_s
        return cls(*(one * 1_000_000 for one in seconds))

    def first_slot(self, largest: Iterable[int]) -> int:
        """The first slot whose tuples are not late, from the newest event times of the streams."""
        times = list(largest)
        return max(min(times) - self.lateness_us, max(times) - self.retention_us) // self.slot_us


@dataclass(frozen=True, slots=True)
class LiveSegment:
    """A segment in use, and the value of the first slot when the segment arrived."""

    stream: str
    number: int
    batch: int
    first_slot: int | None
    latest: int


@dataclass(frozen=True, slots=True)
class QueryState:
    """As of the last decision."""

    version: str | None = None  # the file of queries and plan; None: there are no queries
    largest: Mapping[str, int] = field(default_factory=dict)  # by stream, the newest event time in microseconds
    first_slot: int | None = None
    segments: tuple[LiveSegment, ...] = ()
    shares: int = 1  # parts into which keys are hashed for tasks
    streak: int = 0  # consecutive batches that suit more (positive) or fewer (negative) shares
    fresh: tuple[str, ...] = ()  # queries that were planned without statistics
    changed: int = 0  # queries created and deleted since the last holistic plan
    next_group: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "largest": dict(self.largest),
            "first_slot": self.first_slot,
            "segments": [list(astuple(one)) for one in self.segments],
            "shares": self.shares,
            "streak": self.streak,
            "fresh": list(self.fresh),
            "changed": self.changed,
            "next_group": self.next_group,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> QueryState:
        segments = tuple(LiveSegment(*one) for one in value["segments"])
        return cls(**{**value, "segments": segments, "fresh": tuple(value["fresh"])})

    def advanced(self, clock: EventClock, batch: int, new: Iterable[Segment], wanted: Mapping[str, int]) -> QueryState:
        """The state after a batch with these segments; `wanted` is the longest window in slots, by stream."""
        largest, new = dict(self.largest), list(new)
        for one in new:
            largest[one.stream] = max(largest.get(one.stream, one.latest), one.latest)
        first = self.first_slot
        if largest:
            reached = clock.first_slot(largest.values())
            first = reached if first is None else max(first, reached)
        came = [LiveSegment(one.stream, one.number, batch, self.first_slot, one.latest) for one in new]
        live = [one for one in (*self.segments, *came) if _in_use(one, first, wanted, clock)]
        return replace(self, largest=largest, first_slot=first, segments=tuple(live))

    def scaled(self, tasks: int) -> QueryState:
        """More shares after several batches that are too large for them, fewer after several that are too small."""
        if tasks == self.shares:
            return replace(self, streak=0)
        step = 1 if tasks > self.shares else -1
        streak = self.streak + step if self.streak * step > 0 else step
        if streak in (_OUT_AFTER, -_IN_AFTER):
            return replace(self, shares=tasks, streak=0)
        return replace(self, streak=streak)


def _in_use(one: LiveSegment, first: int | None, wanted: Mapping[str, int], clock: EventClock) -> bool:
    if one.stream not in wanted:
        return False
    return first is None or one.latest // clock.slot_us > first - wanted[one.stream]
