"""Text to numbers, exactly.

    integer   [+-] digits                                    a value outside its range is none
    decimal   [+-] digits [. digits] [e [+-] digits]         rounded half up to its scale; too many digits: none
    double    the same                                       nearest double; infinite: none

White space around a number is ignored. `12.0` and `1e3` are not integers. NaN and infinities are not numbers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import kernel
from etl.ingest.kernels.spans import I32, NUMBER, TEXT, Mask, trimmed
from etl.ingest.kernels.utf8 import Bytes

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

_LOWEST: Final = -(2**63)
_LOWEST_TENTH: Final = -(2**63 // 10)
_FAR: Final = 1_000_000_000  # no text is as long: an exponent beyond it changes nothing
_POWERS: Final = np.array([10**n for n in range(20)], np.uint64)
_EXACT_POWERS: Final = np.array([10.0**n for n in range(23)], np.float64)  # doubles are exact up to 10^22
_WORD: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


@kernel
def _integer(data: Bytes, start: int, end: int) -> tuple[bool, int]:
    """Counts downwards: the lowest integer has no positive counterpart."""
    i, end = trimmed(data, start, end)
    negative = i < end and data[i] == 0x2D
    if i < end and (negative or data[i] == 0x2B):
        i += 1
    if i >= end:
        return False, 0
    value = 0
    while i < end:
        digit = int(data[i]) - 0x30
        if digit < 0 or digit > 9 or value < _LOWEST_TENTH:
            return False, 0
        value *= 10
        if value < _LOWEST + digit:
            return False, 0
        value -= digit
        i += 1
    if negative:
        return True, value
    return value != _LOWEST, -value


@kernel
def integers(data: Bytes, start: I32, end: I32, kind: Bytes, low: int, high: int, out: I64, ok: Mask) -> None:
    """Integers between `low` and `high`; 0 where there is none."""
    for row in range(len(start)):
        good, value = False, 0
        if kind[row] == NUMBER or kind[row] == TEXT:
            good, value = _integer(data, start[row], end[row])
        ok[row] = good and low <= value <= high
        out[row] = value if ok[row] else 0


@kernel
def _digits(data: Bytes, start: int, end: int) -> tuple[bool, bool, int, int, int]:
    """The parts of a number: is it one, is it negative, first significant digit, end of the digits, and `point`.

    With significant digits d1 d2 d3 … the number is 0.d1d2d3… × 10^point. A number without any is zero.
    """
    i, end = trimmed(data, start, end)
    negative = i < end and data[i] == 0x2D
    if i < end and (negative or data[i] == 0x2B):
        i += 1
    first, point, seen, behind = -1, 0, False, False
    while i < end:
        byte = data[i]
        if 0x30 <= byte <= 0x39:
            seen = True
            if first < 0 and byte != 0x30:
                first = i
            if behind and first < 0:
                point -= 1
            elif not behind and first >= 0:
                point += 1
        elif byte == 0x2E and not behind:
            behind = True
        else:
            break
        i += 1
    if not seen:
        return False, negative, first, i, point
    digits_end = i
    if i < end and data[i] | 0x20 == 0x65:
        i += 1
        sign = -1 if i < end and data[i] == 0x2D else 1
        if i < end and (data[i] == 0x2D or data[i] == 0x2B):
            i += 1
        exponent, begin = 0, i
        while i < end and 0x30 <= data[i] <= 0x39:
            exponent = min(exponent * 10 + int(data[i]) - 0x30, _FAR)
            i += 1
        if i == begin:
            return False, negative, first, i, point
        point += sign * exponent
    return i == end, negative, first, digits_end, point


@kernel
def _unscaled(data: Bytes, i: int, end: int, count: int) -> tuple[np.uint64, np.uint64]:
    """The first `count` significant digits (at most 38) as a 128-bit number, rounded half up by the next one."""
    upper, lower, taken = np.uint64(0), np.uint64(0), 0
    ten = np.uint64(10)
    low_count = min(count, 19)
    high_count = count - low_count
    round_up = np.uint64(0)
    while taken <= count:
        if i < end and data[i] == 0x2E:
            i += 1
            continue
        digit = np.uint64(data[i] - 0x30) if i < end else np.uint64(0)
        i += 1
        if taken == count:
            round_up = np.uint64(1) if digit >= np.uint64(5) else np.uint64(0)
        elif taken < high_count:
            upper = upper * ten + digit
        else:
            lower = lower * ten + digit
        taken += 1
    # upper × 10^low_count + lower + round_up, in halves of 32 bits
    power = _POWERS[low_count]
    a, b, c, d = upper >> _HALF, upper & _WORD, power >> _HALF, power & _WORD
    low = b * d
    middle = (low >> _HALF) + (a * d & _WORD) + (b * c & _WORD)
    high = a * c + (a * d >> _HALF) + (b * c >> _HALF) + (middle >> _HALF)
    low = (low & _WORD) | (middle << _HALF)
    total = low + lower
    high += np.uint64(1) if total < low else np.uint64(0)
    low = total + round_up
    high += np.uint64(1) if low < total else np.uint64(0)
    return high, low


@kernel
def decimals(
    data: Bytes, start: I32, end: I32, kind: Bytes, precision: int, scale: int, limit: U64, out: U64, ok: Mask
) -> None:
    """Decimals as pairs of 64 bits, low first, as Arrow lays them out. `limit` is 10^precision, low first."""
    zero, one = np.uint64(0), np.uint64(1)
    for row in range(len(start)):
        out[row, 0] = out[row, 1] = zero
        ok[row] = False
        if kind[row] != NUMBER and kind[row] != TEXT:
            continue
        good, negative, first, last, point = _digits(data, start[row], end[row])
        count = point + scale  # digits that remain
        if not good or (first >= 0 and count > precision):
            continue
        ok[row] = True
        if first < 0 or count < 0:
            continue
        high, low = _unscaled(data, first, last, count)
        if high > limit[1] or (high == limit[1] and low >= limit[0]):
            ok[row] = False
            continue
        if negative:  # two's complement
            low = ~low + one
            high = ~high + (one if low == zero else zero)
        out[row, 0], out[row, 1] = low, high


@kernel
def doubles(data: Bytes, start: I32, end: I32, kind: Bytes, out: F64, ok: Mask, hard: Mask) -> None:
    """Doubles where 18 digits and a small power of ten make them exact; `hard` marks numbers that need more care."""
    for row in range(len(start)):
        out[row] = 0.0
        ok[row] = hard[row] = False
        if kind[row] != NUMBER and kind[row] != TEXT:
            continue
        good, negative, first, last, point = _digits(data, start[row], end[row])
        if not good:
            continue
        ok[row] = True
        if first < 0:
            continue
        mantissa, count, i = 0, 0, first
        while i < last and count <= 18:
            if data[i] != 0x2E:
                mantissa = mantissa * 10 + int(data[i]) - 0x30
                count += 1
            i += 1
        power = point - count
        if count > 18 or mantissa > 2**53 or power > 22 or power < -22:
            hard[row] = True
            continue
        value = float(mantissa)
        value = value * _EXACT_POWERS[power] if power >= 0 else value / _EXACT_POWERS[-power]
        out[row] = -value if negative else value


@kernel
def _lower(byte: int) -> int:
    return byte | 0x20 if 0x41 <= byte <= 0x5A else byte


@kernel
def booleans(data: Bytes, start: I32, end: I32, kind: Bytes, words: Bytes, word_ends: I32, out: Mask, ok: Mask) -> None:
    """Words for true and false, in any case; those of even number mean true."""
    for row in range(len(start)):
        out[row] = ok[row] = False
        if kind[row] < NUMBER or kind[row] > TEXT:
            continue
        i, last = trimmed(data, start[row], end[row])
        first = 0
        for word in range(len(word_ends)):
            size = word_ends[word] - first
            same = 0
            while same < size and i + size == last and _lower(data[i + same]) == words[first + same]:
                same += 1
            if same == size and i + size == last:
                ok[row], out[row] = True, word % 2 == 0
            first = word_ends[word]
