"""What the driver asks of a tactic, whichever algorithm it is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pyarrow as pa

from etl.enrich.step import UNBOUNDED, BatchBudget, StreamTuples, TacticStep


class Tactic(Protocol):
    """One algorithm that brings stream tuples and master rows together.

    It returns what it found and never calls back, logs, sleeps or reads a clock that was not handed to it.
    """

    @property
    def room(self) -> int:
        """How many tuples it takes in next: w_B of the paper."""
        ...

    @property
    def pending(self) -> int:
        """How many tuples wait inside for their master row."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory of its state."""
        ...

    def load(self, tuples: StreamTuples) -> None:
        """Takes in at most `room` tuples."""
        ...

    def advance(self, *, draining: bool, shedding: bool = False, most: BatchBudget = UNBOUNDED) -> TacticStep:
        """One round: reads some of the master and matches.

        `draining`: no tuples wait outside. `shedding`: tuples were just shed, and more may follow. `most`: what it
        may read; who cannot be asked for stays pending.
        """
        ...

    def shed(self, count: int) -> StreamTuples | None:
        """Gives up to `count` pending tuples back, those dearest to match; None when it has none to give."""
        ...

    def shed_all(self) -> StreamTuples | None:
        """Gives all pending tuples back and starts anew."""
        ...

    def schema(self, key_type: pa.DataType) -> pa.Schema:
        """The columns of master rows; refuses stream keys of another kind."""
        ...


@runtime_checkable
class Timed(Protocol):
    """A tactic that wants to know when the driver is done with what a step found: that is part of its price."""

    def step_is_over(self) -> None: ...
