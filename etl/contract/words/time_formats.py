"""Formats of dates and times: strptime's directives, as far as the reader of events knows them.

    %d/%m/%Y %H:%M  ──▶  %d / %m / %Y (space) %H : %M        shorthands (%T %F %D %R) are written out

A format names a day: a year and a day of it, or month and day. What it left out would be read as 1900 or January.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

DIRECTIVES: Final = "YymbBdejHIpMSfz"
SHORTHANDS: Final = {"%T": "%H:%M:%S", "%F": "%Y-%m-%d", "%D": "%m/%d/%y", "%R": "%H:%M"}
ALLOWED: Final = " ".join((*(f"%{letter}" for letter in DIRECTIVES), *SHORTHANDS, "%%"))


def parts(text: str) -> Iterator[str]:
    """Characters and directives of a format, shorthands written out. Raises `ValueError` with an unknown directive."""
    characters = iter(text)
    for character in characters:
        if character != "%":
            yield character
            continue
        part = f"%{next(characters, '')}"
        if part in SHORTHANDS:
            yield from parts(SHORTHANDS[part])
        elif part == "%%" or part[1:] in tuple(DIRECTIVES):
            yield part
        else:
            raise ValueError(part)


def mistake(text: str) -> str | None:
    """What is wrong with a format: a clause of a sentence, None when nothing is."""
    try:
        named = set(parts(text))
    except ValueError as unknown:
        return f"{unknown} in {text!r} is not a part of a date's format; allowed are {ALLOWED}"
    missing = []
    if not named & {"%Y", "%y"}:
        missing.append("a year (%Y)")
    if "%j" not in named:
        missing += ["a month (%m)"] * (not named & {"%m", "%b", "%B"}) + ["a day (%d)"] * (not named & {"%d", "%e"})
    if not missing:
        return None
    return f"{text!r} names no day, as it lacks {' and '.join(missing)}; allowed are {ALLOWED}"
