"""Errors of users of ad-hoc queries; messages name the place."""

from __future__ import annotations

from etl.errors import TerminalError


class QueryRefused(TerminalError):
    """A query uses something that is not supported."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(reason, line, column)
        self.reason, self.line, self.column = reason, line, column

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.reason}"


class WindowRefused(TerminalError):
    """A window that the buckets do not support."""

    def __init__(self, name: str, within: str, reason: str) -> None:
        super().__init__(name, within, reason)
        self.name, self.within, self.reason = name, within, reason

    def __str__(self) -> str:
        return f"query {self.name!r}: within {self.within} {self.reason}"


class NameInUse(TerminalError):
    def __init__(self, name: str, owner: str) -> None:
        super().__init__(name, owner)
        self.name, self.owner = name, owner

    def __str__(self) -> str:
        return (
            f"a query named {self.name!r} exists already and belongs to {self.owner}; choose another name or delete it"
        )


class NameRefused(TerminalError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"query name {self.name!r} is not allowed; use 1 to 63 lower-case letters, digits and _, a letter first"


class UnknownQuery(TerminalError):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"no query is named {self.name!r}; `frontstage query list` shows those that are"


class QuotaExceeded(TerminalError):
    def __init__(self, name: str, what: str, used: int, allowed: int) -> None:
        super().__init__(name, what, used, allowed)
        self.name, self.what, self.used, self.allowed = name, what, used, allowed

    def __str__(self) -> str:
        given = f"query {self.name!r} would be number {self.used + 1} of {self.what}"
        return f"{given}, {self.allowed} are allowed; delete one first"


class NotTheOwner(TerminalError):
    def __init__(self, name: str, owner: str, by: str) -> None:
        super().__init__(name, owner, by)
        self.name, self.owner, self.by = name, owner, by

    def __str__(self) -> str:
        return f"query {self.name!r} belongs to {self.owner}, not to {self.by}; only its owner deletes it"


class BucketsOutOfOrder(TerminalError):
    def __init__(self, slot: int, expected: int) -> None:
        super().__init__(slot, expected)
        self.slot, self.expected = slot, expected

    def __str__(self) -> str:
        given = f"slot {self.slot} was handed in, slot {self.expected} is next"
        return f"{given}; slots come one after the other, empty ones too"


class SnapshotRefused(TerminalError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the snapshot cannot be restored: {self.reason}"
