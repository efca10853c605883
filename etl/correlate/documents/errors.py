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
    """A window's documents do not fit into the memory of a joiner.

    `begun`: the window has documents already. New ones go by its older partitions as well, so others cannot help it.
    """

    def __init__(self, needed_bytes: int, budget_bytes: int, documents: int, begun: bool = False) -> None:
        super().__init__(needed_bytes, budget_bytes, documents, begun)
        self.needed_bytes, self.budget_bytes = needed_bytes, budget_bytes
        self.documents, self.begun = documents, begun

    def __str__(self) -> str:
        partitions = (
            "; more partitions help from the next window on" if self.begun else " or raise the number of partitions"
        )
        return (
            f"joining {self.documents:,} documents needs {self.needed_bytes:,} bytes at one joiner, which may use "
            f"{self.budget_bytes:,}; raise the budget{' or' if self.begun else ','} shorten the window{partitions}"
        )


class UnlikeDictionaries(TerminalError):
    """Documents of two dictionaries were concatenated, whose codes are not comparable."""

    def __str__(self) -> str:
        return "documents of different dictionaries cannot be put together; encode them with one dictionary"
