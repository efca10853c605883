"""Text to dates and timestamps.

    ISO 8601   2026-11-17 | 2026-11-17T09:30[:15[.123456…]][Z | ±hh[[:]mm]]     `T` may be a space; no offset is UTC
    patterns   strptime's directives, compiled to numbers: a byte stands for itself, 256 + x for a directive

Values are days or microseconds since 1970 in UTC, from the year 1 to the year 9999. Digits beyond microseconds are
cut off. Leap seconds and 24:00 are not times.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import kernel
from etl.ingest.kernels.spans import I32, NUMBER, TEXT, Mask, is_space, trimmed
from etl.ingest.kernels.utf8 import Bytes

I64 = npt.NDArray[np.int64]

DAY: Final = 86_400_000_000
_SECOND: Final = 1_000_000
FIRST_DAY: Final = -719_162  # 0001-01-01
LAST_DAY: Final = 2_932_896  # 9999-12-31
_MONTHS: Final = np.frombuffer(b"janfebmaraprmayjunjulaugsepoctnovdec", np.uint8)
_MONTH_TAILS: Final = np.frombuffer(
    b"uary   ruary  ch     il            e      y      ust    tember ober   ember  ember  ", np.uint8
)  # seven bytes each

SPACE: Final = 256
"""One or more white-space characters."""
_D: Final = 256  # + ord of the directive's letter


@kernel
def _number(data: Bytes, i: int, end: int, least: int, most: int) -> tuple[int, int]:
    """A number of `least` to `most` digits (-1: there is none), and the position behind it."""
    value, begin = 0, i
    while i < end and i - begin < most and 0x30 <= data[i] <= 0x39:
        value = value * 10 + int(data[i]) - 0x30
        i += 1
    return (value if i - begin >= least else -1), i


@kernel
def _days(year: int, month: int, day: int) -> tuple[bool, int]:
    """Days since 1970-01-01 in the Gregorian calendar; years begin in March, so that leap days come last."""
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    longest = 31
    if month == 2:
        longest = 29 if leap else 28
    elif month in (4, 6, 9, 11):
        longest = 30
    if not (1 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= longest):
        return False, 0
    if month <= 2:
        year -= 1
    century_years = year % 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    of_era = century_years * 365 + century_years // 4 - century_years // 100 + of_year
    return True, (year // 400) * 146_097 + of_era - 719_468


@kernel
def _fraction(data: Bytes, i: int, end: int, most: int) -> tuple[int, int]:
    """Microseconds of one to `most` digits (-1: there is none), and the position behind them."""
    micros, unit, begin = 0, 100_000, i
    while i < end and i - begin < most and 0x30 <= data[i] <= 0x39:
        micros += (int(data[i]) - 0x30) * unit
        unit //= 10
        i += 1
    return (micros if i > begin else -1), i


@kernel
def _offset(data: Bytes, i: int, end: int, minutes_needed: bool) -> tuple[bool, int, int]:
    """`Z`, `±hh`, `±hhmm` or `±hh:mm` as microseconds east of UTC, and the position behind it."""
    if i < end and data[i] == 0x5A:
        return True, 0, i + 1
    if i >= end or (data[i] != 0x2B and data[i] != 0x2D):
        return False, 0, i
    sign = -1 if data[i] == 0x2D else 1
    hours, i = _number(data, i + 1, end, 2, 2)
    colon = i < end and data[i] == 0x3A
    minutes, after = _number(data, i + 1 if colon else i, end, 2, 2)
    if minutes < 0 and not colon and not minutes_needed:
        minutes, after = 0, i
    if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
        return False, 0, i
    return True, sign * (hours * 60 + minutes) * 60 * _SECOND, after


@kernel
def _micros(days: int, hour: int, minute: int, second: int, micros: int, east: int) -> tuple[bool, int]:
    good = 0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60
    value = days * DAY + ((hour * 60 + minute) * 60 + second) * _SECOND + micros - east
    return good and FIRST_DAY * DAY <= value < (LAST_DAY + 1) * DAY, value


@kernel
def _iso_date(data: Bytes, i: int, end: int) -> tuple[bool, int, int]:
    """Days of `YYYY-MM-DD`, and the position behind it."""
    if i + 10 > end or data[i + 4] != 0x2D or data[i + 7] != 0x2D:
        return False, 0, i
    year, _ = _number(data, i, end, 4, 4)
    month, _ = _number(data, i + 5, end, 2, 2)
    day, _ = _number(data, i + 8, end, 2, 2)
    good, days = _days(year, month, day)
    return good, days, i + 10


@kernel
def _iso_timestamp(data: Bytes, i: int, end: int) -> tuple[bool, int]:
    good, days, i = _iso_date(data, i, end)
    if not good or i == end:
        return good, days * DAY
    if data[i] != 0x54 and data[i] != 0x20 and data[i] != 0x74:
        return False, 0
    hour, i = _number(data, i + 1, end, 2, 2)
    if hour < 0 or i >= end or data[i] != 0x3A:
        return False, 0
    minute, i = _number(data, i + 1, end, 2, 2)
    second, micros, east = 0, 0, 0
    if i < end and data[i] == 0x3A:
        second, i = _number(data, i + 1, end, 2, 2)
        if second >= 0 and i < end and (data[i] == 0x2E or data[i] == 0x2C):
            micros, i = _fraction(data, i + 1, end, end)
            if micros < 0:
                return False, 0
    if i < end:
        good, east, i = _offset(data, i, end, False)
    if not good or i != end:
        return False, 0
    return _micros(days, hour, minute, second, micros, east)


@kernel
def _month_name(data: Bytes, i: int, end: int, full: bool) -> tuple[int, int]:
    """The month that an English name or its first three letters mean, in any case (-1: none)."""
    if i + 3 > end:
        return -1, i
    for month in range(12):
        same = 0
        while same < 3 and data[i + same] | 0x20 == _MONTHS[3 * month + same]:
            same += 1
        if same < 3:
            continue
        i += 3
        if full:
            for letter in _MONTH_TAILS[7 * month : 7 * month + 7]:
                if letter != 0x20:
                    if i >= end or data[i] | 0x20 != letter:
                        return -1, i
                    i += 1
        return month + 1, i
    return -1, i


@kernel
def _by_pattern(data: Bytes, i: int, end: int, pattern: I32) -> tuple[bool, int, int]:
    """Days and microseconds since 1970 of a text that has the pattern's form."""
    year, month, day, hour, minute, second, micros, east = 1900, 1, 1, 0, 0, 0, 0, 0
    of_year, twelve, afternoon, good = 0, False, False, True
    for op in pattern:
        part = 0
        if op < SPACE:
            if i >= end or data[i] != op:
                return False, 0, 0
            i += 1
        elif op == SPACE:
            begin = i
            while i < end and is_space(data[i]):
                i += 1
            part = 0 if i > begin else -1
        elif op == _D + 0x59:  # Y
            year, i = _number(data, i, end, 4, 4)
            part = year
        elif op == _D + 0x79:  # y
            part, i = _number(data, i, end, 2, 2)
            year = part + (1900 if part > 68 else 2000)
        elif op == _D + 0x6D:  # m
            month, i = _number(data, i, end, 1, 2)
            part = month
        elif op == _D + 0x62 or op == _D + 0x42:  # b, B
            month, i = _month_name(data, i, end, op == _D + 0x42)
            part = month
        elif op == _D + 0x64 or op == _D + 0x65:  # d, e
            if op == _D + 0x65 and i < end and data[i] == 0x20:
                i += 1
            day, i = _number(data, i, end, 1, 2)
            part = day
        elif op == _D + 0x6A:  # j
            of_year, i = _number(data, i, end, 1, 3)
            part = of_year if of_year != 0 else -1
        elif op == _D + 0x48 or op == _D + 0x49:  # H, I
            hour, i = _number(data, i, end, 1, 2)
            twelve = op == _D + 0x49
            part = hour if not twelve or 1 <= hour <= 12 else -1
        elif op == _D + 0x70:  # p
            good = i + 2 <= end and data[i + 1] | 0x20 == 0x6D and (data[i] | 0x20 == 0x61 or data[i] | 0x20 == 0x70)
            part = 0 if good else -1
            afternoon = good and data[i] | 0x20 == 0x70
            i += 2
        elif op == _D + 0x4D:  # M
            minute, i = _number(data, i, end, 1, 2)
            part = minute
        elif op == _D + 0x53:  # S
            second, i = _number(data, i, end, 1, 2)
            part = second
        elif op == _D + 0x66:  # f
            micros, i = _fraction(data, i, end, 6)
            part = micros
        else:  # z
            good, east, i = _offset(data, i, end, True)
            part = 0 if good else -1
        if part < 0:
            return False, 0, 0
    if twelve:
        hour = hour % 12 + (12 if afternoon else 0)
    good, days = _days(year, month, day)
    if of_year:
        good, days = _days(year, 1, 1)
        good = good and (of_year <= 365 or (of_year == 366 and _days(year, 2, 29)[0]))
        days += of_year - 1
    in_range, value = _micros(days, hour, minute, second, micros, east)
    return good and in_range and i == end, days, value


@kernel
def dates(data: Bytes, start: I32, end: I32, kind: Bytes, pattern: I32, out: I64, ok: Mask) -> None:
    """Days since 1970; an empty pattern means ISO 8601."""
    for row in range(len(start)):
        good, days = False, 0
        if kind[row] == TEXT or (kind[row] == NUMBER and len(pattern)):
            i, last = trimmed(data, start[row], end[row])
            if len(pattern):
                good, days, _ = _by_pattern(data, i, last, pattern)
            else:
                good, days, i = _iso_date(data, i, last)
                good = good and i == last
        ok[row] = good
        out[row] = days if good else 0


@kernel
def timestamps(data: Bytes, start: I32, end: I32, kind: Bytes, pattern: I32, out: I64, ok: Mask) -> None:
    """Microseconds since 1970 in UTC; an empty pattern means ISO 8601."""
    for row in range(len(start)):
        good, value = False, 0
        if kind[row] == TEXT or (kind[row] == NUMBER and len(pattern)):
            i, last = trimmed(data, start[row], end[row])
            if len(pattern):
                good, _, value = _by_pattern(data, i, last, pattern)
            else:
                good, value = _iso_timestamp(data, i, last)
        ok[row] = good
        out[row] = value if good else 0
