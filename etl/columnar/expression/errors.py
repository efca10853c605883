"""Errors of expressions: in the text, at compile time, or in a row, in strict evaluation."""

from __future__ import annotations

from etl.errors import TerminalError


class ExpressionRefused(TerminalError):
    """The text is not a supported expression; line and column count from 1."""

    def __init__(self, reason: str, sql: str, line: int, column: int) -> None:
        super().__init__(reason, sql, line, column)
        self.reason, self.sql, self.line, self.column = reason, sql, line, column

    def __str__(self) -> str:
        shown = self.sql if len(self.sql) <= 80 else self.sql[:77] + "..."
        return f"line {self.line}, column {self.column} of {shown!r}: {self.reason}"


class ExpressionFailed(TerminalError):
    """A row has no result: an overflow, a division by zero, a text that is no number."""

    def __init__(self, operation: str, sql: str, row: int) -> None:
        super().__init__(operation, sql, row)
        self.operation, self.sql, self.row = operation, sql, row

    def __str__(self) -> str:
        return f"row {self.row} of the batch has no result for {self.operation} in {self.sql!r}"
