"""The interface of tactics."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pyarrow as pa

from etl.enrich.step import UNBOUNDED, BatchBudget, StreamTuples, TacticStep


class Tactic(Protocol):
    """One join algorithm.

    It returns its results and never calls back, logs, sleeps or reads a clock that it was not given.
    """

    @property
    def room(self) -> int:
        """The number of tuples for the next load: w_B of the paper."""
        ...

    @property
    def pending(self) -> int:
        """The number of unanswered tuples inside."""
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

        `draining`: no tuples wait outside. `shedding`: tuples were just shed, and more may follow. `most`: the read
        budget; tuples beyond it stay pending.
        """
        ...

    def shed(self, count: int) -> StreamTuples | None:
        """Returns up to `count` pending tuples, the most expensive ones; None when it sheds none."""
        ...

    def shed_all(self) -> StreamTuples | None:
        """Returns all pending tuples and resets."""
        ...

    def schema(self, key_type: pa.DataType) -> pa.Schema:
        """The columns of master rows; raises if stream keys are of another type."""
        ...


@runtime_checkable
class Timed(Protocol):
    """A tactic that is notified when the driver has processed a step's results, as that is part of its cost."""

    def step_is_over(self) -> None: ...
