"""Load shedding: which tuples to shed when they arrive faster than they are joined (ADR 11).

    |SB1| > 2·w_B    too many wait: |SB1| - 2·w_B of them are shed
    otherwise        load has fallen: shed tuples may come back until 2·w_B wait

    none               nothing is shed; memory grows with the input
    keep               shed the newest tuples of the stream buffer, without probing them
    consider           shed the oldest tuples of the queue: no page read so far was theirs, so they are the most
                       expensive; meanwhile the element at 15 % of the queue selects what is read
    consider-untuned   the same, but the oldest element still selects

w_B is the room of the tactic: the number of places freed in the last round. Shed tuples are returned; the caller stores
them. `ShedLog` is the simplest store: in memory, first in, first out.
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
    """The policy, and the hard limit of tuples in the stream buffer after a step."""

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
    """The result of the detection rule: how many tuples to shed, or how many to take back."""

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
        """The oldest shed tuples, at most `most`."""
        return self._buffer.take_first(most)
