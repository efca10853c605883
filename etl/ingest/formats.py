"""Declared date and time formats: strptime's directives, compiled for the kernel.

    %Y-%m-%d %H:%M  ──▶  directive Y, byte '-', directive m, …  (numbers; see `kernels.times`)

Directives mean what Python's `strptime` means by them; `etl.contract.words.time_formats` has the list. White space in a
format matches one or more white-space characters. Numbers of one or two digits are read greedily, without going back.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from etl.contract.words.time_formats import ALLOWED, parts
from etl.errors import TerminalError
from etl.ingest.kernels.times import SPACE


class FormatUnsupported(TerminalError):
    """A date or time format with a directive that is not known."""

    def __init__(self, text: str, directive: str) -> None:
        super().__init__(text, directive)
        self.text, self.directive = text, directive

    def __str__(self) -> str:
        return f"format {self.text!r} has the directive {self.directive!r}; allowed are {ALLOWED}"


@lru_cache(maxsize=256)
def compile_format(text: str | None) -> npt.NDArray[np.int32]:
    """The pattern of a format; empty for ISO 8601."""
    codes: list[int] = []
    try:
        for part in parts(text or ""):
            if part.isspace():
                codes += [SPACE] if codes[-1:] != [SPACE] else []
            elif part == "%%":
                codes.append(ord("%"))
            elif part.startswith("%"):
                codes.append(SPACE + ord(part[1]))
            else:
                codes += part.encode()
    except ValueError as unknown:
        raise FormatUnsupported(text or "", str(unknown)) from None
    return np.array(codes, np.int32)
