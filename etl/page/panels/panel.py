"""One part of the page of a correlation: figures, tables and sentences, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column; numbers stand to the right."""

    name: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts, the first of which names the row."""

    caption: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of the page with a heading."""

    title: str
    intro: str = ""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    code: str = ""
