"""The delimiters that the reader of CSV knows."""

from __future__ import annotations

from typing import Final

_TAKEN: Final = '"\r\n\0'  # quotes and ends of lines; no text holds a NUL


def is_delimiter(text: str) -> bool:
    """Whether a text can stand between the values of CSV: one byte that means nothing else."""
    return len(text) == 1 and text.isascii() and text not in _TAKEN
