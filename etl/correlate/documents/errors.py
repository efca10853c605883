"""Errors of streams of documents and of joiners."""

from __future__ import annotations

from etl.errors import TerminalError


class InvalidOption(TerminalError):
    """An option of a stream of documents has a value that is not allowed."""

    def __init__(self, option: str, given: object, allowed: str) -> None:
        super().__init__(option, given, allowed)
        self.option, self.given, self.allowed = option, given, allowed

    def __str__(self) -> str:
        return f"{self.option}={self.given!r} is not allowed; {self.option} must be {self.allowed}"


class JoinerBudgetExceeded(TerminalError):
    """A window's documents do not fit into the memory of a joiner, for any number of joiners."""

    def __init__(self, needed_bytes: int, budget_bytes: int, documents: int) -> None:
        super().__init__(needed_bytes, budget_bytes, documents)
        self.needed_bytes, self.budget_bytes, self.documents = needed_bytes, budget_bytes, documents

    def __str__(self) -> str:
        return (
            f"joining {self.documents:,} documents needs {self.needed_bytes:,} bytes at one joiner, which may use "
            f"{self.budget_bytes:,}; raise the budget, shorten the window or raise the number of partitions"
        )


class UnlikeDictionaries(TerminalError):
    """Documents of two dictionaries were concatenated, whose codes are not comparable."""

    def __str__(self) -> str:
        return "documents of different dictionaries cannot be put together; encode them with one dictionary"
