"""Errors of joins: every message names the cause and the remedy."""

from __future__ import annotations

from etl.errors import SettingsError, TerminalError


class DuplicateMasterKey(TerminalError):
    """Two master rows have the same key, so a stream tuple would have two answers."""

    def __init__(self, source: str, key: str) -> None:
        super().__init__(source, key)
        self.source, self.key = source, key

    def __str__(self) -> str:
        return f"master {self.source!r} holds key {self.key} more than once; make the key unique and publish again"


class NullMasterKey(TerminalError):
    """A master row without a key can never be found."""

    def __init__(self, source: str, rows: int) -> None:
        super().__init__(source, rows)
        self.source, self.rows = source, rows

    def __str__(self) -> str:
        return f"master {self.source!r} holds {self.rows} rows with a NULL key; remove them or give them keys"


class BudgetTooSmall(SettingsError):
    """The byte budget is too small for the smallest join."""

    def __init__(self, part: str, given_bytes: int, needed_bytes: int) -> None:
        super().__init__(part, given_bytes, needed_bytes)
        self.part, self.given_bytes, self.needed_bytes = part, given_bytes, needed_bytes

    def __str__(self) -> str:
        return (
            f"{self.given_bytes} bytes are too few for {self.part}, which needs at least {self.needed_bytes}; "
            f"raise the budget (FRONTSTAGE_BUDGET_BYTES, of which every master and every worker's join gets a part)"
        )


class UnknownChoice(SettingsError):
    """A name that is none of the allowed ones."""

    def __init__(self, what: str, given: str, allowed: tuple[str, ...]) -> None:
        super().__init__(what, given, allowed)
        self.what, self.given, self.allowed = what, given, allowed

    def __str__(self) -> str:
        return f"{self.what} {self.given!r} is unknown; choose one of {', '.join(self.allowed)}"


class PortMissing(SettingsError):
    """The chosen join needs a port that this source does not provide."""

    def __init__(self, join: str, port: str) -> None:
        super().__init__(join, port)
        self.join, self.port = join, port

    def __str__(self) -> str:
        return f"{self.join} needs a master source with {self.port}; pass one or choose another join"
