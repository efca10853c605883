"""Declared date and time formats: strptime's directives, compiled for the kernel.

    %Y-%m-%d %H:%M  ──▶  directive Y, byte '-', directive m, …  (numbers; see `kernels.times`)

Directives mean what Python's `strptime` means by them. White space in a format matches one or more white-space
characters. Numbers of one or two digits are read greedily, without going back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from etl.errors import TerminalError
from etl.ingest.kernels.times import SPACE

ALLOWED: Final = "YymbBdejHIpMSfz"
"""Letters of the supported directives."""
_ABBREVIATIONS: Final = {"%T": "%H:%M:%S", "%F": "%Y-%m-%d", "%D": "%m/%d/%y", "%R": "%H:%M"}


class FormatUnsupported(TerminalError):
    """A date or time format with a directive that is not known."""

    def __init__(self, text: str, directive: str) -> None:
        super().__init__(text, directive)
        self.text, self.directive = text, directive

    def __str__(self) -> str:
        allowed = " ".join(f"%{letter}" for letter in ALLOWED)
        return f"format {self.text!r} has the directive {self.directive!r}; allowed are {allowed} %% %T %F %D %R"


@lru_cache(maxsize=256)
def compile_format(text: str | None) -> npt.NDArray[np.int32]:
    """The pattern of a format; empty for ISO 8601."""
    codes: list[int] = []
    expanded = text or ""
    for short, long in _ABBREVIATIONS.items():
        expanded = expanded.replace(short, long)
    characters = iter(expanded)
    for character in characters:
        if character.isspace():
            codes += [SPACE] if codes[-1:] != [SPACE] else []
        elif character != "%":
            codes += character.encode()
        elif (letter := next(characters, "")) == "%":
            codes.append(ord("%"))
        elif letter and letter in ALLOWED:
            codes.append(SPACE + ord(letter))
        else:
            raise FormatUnsupported(text or "", "%" + letter)
    return np.array(codes, np.int32)
