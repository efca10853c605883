"""Load shedding: which tuples to put aside when they come faster than they are joined (ADR 11).

    |SB1| > 2·w_B    too many wait: |SB1| - 2·w_B of them are shed
    otherwise        load has fallen: shed tuples may come back until 2·w_B wait

    none               nothing is shed; whoever offers too much uses too much memory
    keep               the newest of the stream buffer go, before anybody looked at them
    consider           the oldest of the queue go: many pages went by and none was theirs, so they are the dearest;
                       meanwhile the element at 15 % of the queue chooses what is read
    consider-untuned   the same, but the oldest still chooses

w_B is the room of the tactic: what it freed in the last round. Shed tuples are values; where they wait is the caller's
business. `ShedLog` is the simplest place: in memory, first shed, first back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from etl.enrich.errors import UnknownChoice
from etl.enrich.step import StreamTuples
from etl.enrich.stream_buffer import StreamBuffer

ReadRule = Literal["best_first", "position"]
"""For whom a batch reads first when it may not read for all: keys that most tuples wait for, or the queue's tuples from
the paper's position on."""
ShedPolicy = Literal["none", "keep", "consider", "consider-untuned"]
SHED_POLICIES: tuple[ShedPolicy, ...] = ("none", "keep", "consider", "consider-untuned")


@dataclass(frozen=True, slots=True)
class SheddingConfig:
    """Which policy, and how many tuples the stream buffer may hold after a step whatever the policy says."""

    policy: ShedPolicy = "none"
    most_waiting: int = 1 << 20

    def __post_init__(self) -> None:
        if self.policy not in SHED_POLICIES:
            raise UnknownChoice("shedding policy", self.policy, SHED_POLICIES)
        if self.most_waiting < 1:
            raise ValueError(f"most_waiting={self.most_waiting} is not positive")

    @property
    def tuned(self) -> bool:
        return self.policy == "consider"


@dataclass(frozen=True, slots=True)
class Load:
    """What the detection rule says: shed so many, or take so many back."""

    excess: int
    reload: int


def measure(waiting: int, room: int) -> Load:
    """The detection rule."""
    bound = 2 * room
    return Load(excess=max(0, waiting - bound), reload=max(0, bound - waiting))


class ShedLog:
    """Shed tuples in memory, first in, first out."""

    def __init__(self) -> None:
        self._buffer = StreamBuffer()

    def __len__(self) -> int:
        return len(self._buffer)

    def put(self, tuples: StreamTuples | None) -> None:
        if tuples is not None:
            self._buffer.append(tuples)

    def take(self, most: int) -> list[StreamTuples]:
        """The oldest shed tuples, at most so many."""
        return self._buffer.take_first(most)
