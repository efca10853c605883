"""What the ledger refuses."""

from __future__ import annotations

from etl.errors import TerminalError


class Fenced(TerminalError):
    """Another writer has taken over; what this one still holds in its hands is void."""

    def __init__(self, pipeline: str, holder: str) -> None:
        super().__init__(pipeline, holder)
        self.pipeline, self.holder = pipeline, holder

    def __str__(self) -> str:
        return (
            f"pipeline {self.pipeline} is written by {self.holder} now; this run was too slow and has changed nothing"
        )


class NotHeld(TerminalError):
    """A word about a batch that does not wait for one."""

    def __init__(self, pipeline: str, batch: int) -> None:
        super().__init__(pipeline, batch)
        self.pipeline, self.batch = pipeline, batch

    def __str__(self) -> str:
        return (
            f"batch {self.batch} of {self.pipeline} is not held, so there is nothing to release or reject; "
            "`frontstage held list` shows those that wait for a decision"
        )
