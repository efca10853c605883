"""Output of commands: a live line and colour on a terminal, plain lines with a clock without one."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

import rich.console
from rich.status import Status
from rich.table import Table
from rich.text import Text

WIDTH = 80
"""Of a terminal."""


class Console:
    """Progress for people: `say` prints a finished event, `doing` shows the current activity."""

    def __init__(self, *, stderr: bool = False) -> None:
        self._console = rich.console.Console(stderr=stderr, highlight=False, soft_wrap=True)
        self._began = time.monotonic()
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def say(self, sentence: str) -> None:
        """Print one permanent line."""
        clock = f"{time.monotonic() - self._began:6.1f}s"
        if self._console.is_terminal:
            self._console.print(f"[dim]{clock}[/dim]  ", end="")
            self._console.print(sentence, markup=False)
        else:
            print(f"{clock}  {sentence}", flush=True, file=self._console.file)

    def doing(self, what: str) -> None:
        """Show the current activity; on a terminal the next one replaces it, elsewhere it is an ordinary line."""
        if self._status is not None:
            self._status.update(what)
        else:
            self.say(f"{what} …")

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table; figures are right-aligned. If it is too wide, cells wrap and nothing is truncated."""
        table = Table(title=title, title_justify="left")
        for number, column in enumerate(columns):
            name = number == 0
            table.add_column(column, justify="left" if name else "right", no_wrap=name, overflow="fold")
        for row in rows:
            table.add_row(*[Text(f"{cell:,}" if isinstance(cell, int) else printable(str(cell))) for cell in row])
        self._console.print(table)


def printable(text: str) -> str:
    """Sanitize external text for a terminal: no control characters that move the cursor, hide or reorder text."""
    spaced = text.replace("\N{NO-BREAK SPACE}", " ")  # figures have them
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in spaced)


def fitted(text: str, head: str = "") -> str:
    """A line and its continuations, as wide as a terminal: they begin where the text after the head does."""
    indent = len(head) or len(text) - len(text.lstrip()) + 2
    wrapped = textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent=" " * indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join(wrapped) or head


def print_error(sentence: str) -> None:
    """One clear sentence on standard error."""
    print(f"frontstage: {sentence}", file=sys.stderr, flush=True)
