"""Errors in the declaration of a correlation. An error in its SQL is an `ExpressionRefused`, with its position."""

from __future__ import annotations

from etl.errors import TerminalError


class WindowRefused(TerminalError):
    """A window that is empty, or a lateness that is negative."""

    def __init__(self, what: str, given: str) -> None:
        super().__init__(what, given)
        self.what, self.given = what, given

    def __str__(self) -> str:
        return f"{self.what} is {self.given}; it must be a positive length of time whose lower bound is below its upper"


class RoutingRefused(TerminalError):
    """A routing that the condition or the number of units does not allow."""

    def __init__(self, given: str, allowed: str) -> None:
        super().__init__(given, allowed)
        self.given, self.allowed = given, allowed

    def __str__(self) -> str:
        return f"routing {self.given} is not possible; {self.allowed}"


class ScalingRefused(TerminalError):
    """Thresholds of the resource manager that contradict each other."""

    def __init__(self, given: str) -> None:
        super().__init__(given)
        self.given = given

    def __str__(self) -> str:
        return f"scaling with {self.given} is not possible; 0 <= low < target < high <= 1 and at least one confirmation"


class StateDamaged(TerminalError):
    """A run of a unit's state does not match its description."""

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(run, reason)
        self.run, self.reason = run, reason

    def __str__(self) -> str:
        return f"state run {self.run} is damaged: {self.reason}; restore it or rebuild the correlation's state"
