"""Errors of the ledger."""

from __future__ import annotations

from etl.errors import TerminalError


class Fenced(TerminalError):
    """Another writer has taken over; this one's uncommitted work is void."""

    def __init__(self, pipeline: str, holder: str) -> None:
        super().__init__(pipeline, holder)
        self.pipeline, self.holder = pipeline, holder

    def __str__(self) -> str:
        return (
            f"pipeline {self.pipeline} is written by {self.holder} now; this run was too slow and has changed nothing"
        )


class NotHeld(TerminalError):
    """A decision on a batch that waits for none."""

    def __init__(self, pipeline: str, batch: int) -> None:
        super().__init__(pipeline, batch)
        self.pipeline, self.batch = pipeline, batch

    def __str__(self) -> str:
        return (
            f"batch {self.batch} of {self.pipeline} is not held, so there is nothing to release or reject; "
            "`frontstage held list` shows those that wait for a decision"
        )
