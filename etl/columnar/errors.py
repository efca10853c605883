"""Errors about join keys: types that cannot be compared, types that cannot be joined, colliding fingerprints."""

from __future__ import annotations

from etl.errors import TerminalError


class KeyTypeMismatch(TerminalError):
    """The key types of stream and master cannot be compared."""

    def __init__(self, given: str, expected: str, of: str = "") -> None:
        super().__init__(given, expected, of)
        self.given, self.expected, self.of = given, expected, of

    def __str__(self) -> str:
        of = f" of {self.of}" if self.of else ""
        return f"stream keys{of} are {self.given}, master keys are {self.expected}; cast one of them before the join"


class KeyTypeUnsupported(TerminalError):
    """Keys of this type cannot be joined."""

    def __init__(self, given: str) -> None:
        super().__init__(given)
        self.given = given

    def __str__(self) -> str:
        return (
            f"keys of type {self.given} cannot be joined; use an integer, string or binary column, or a struct of them"
        )


class FingerprintCollision(TerminalError):
    """Two different long keys share one 128-bit fingerprint; detected before any result was returned."""

    def __init__(self, keys: int) -> None:
        super().__init__(keys)
        self.keys = keys

    def __str__(self) -> str:
        return f"{self.keys} keys collide with other keys in 128 bits; join on an integer key instead"
