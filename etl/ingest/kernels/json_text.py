"""JSON by RFC 8259, to the letter: where each declared field's value lies in its line.

    {"id": 7, "price": 1.50, "note": "x"}     declared: id, price
           ▲           ▲▲▲▲  └───────────┘
        NUMBER        NUMBER     extra: {"note": "x"}

One pass over the bytes of a line, nothing is converted. A line is well formed when it is exactly one object: no second
value, no trailing comma, no NaN, no control character in a string, no deeper than DEEPEST, and no declared field
twice (which of the two would be the event's?). A byte order mark before the object is ignored.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from etl.columnar.jit import kernel
from etl.ingest.kernels.spans import ABSENT, BOOLEAN, ESCAPED, I32, NESTED, NULL, NUMBER, TEXT, Mask, hex4, unescape
from etl.ingest.kernels.utf8 import Bytes

DEEPEST: Final = 64
"""Objects and arrays within a field's value: one bit each on a stack of 64."""

_QUOTE, _COMMA, _COLON, _BACKSLASH = 0x22, 0x2C, 0x3A, 0x5C
_BRACE, _BRACE_END, _BRACKET, _BRACKET_END = 0x7B, 0x7D, 0x5B, 0x5D


@kernel
def _skip_space(data: Bytes, i: int, end: int) -> int:
    while i < end and (data[i] == 0x20 or data[i] == 0x09 or data[i] == 0x0D or data[i] == 0x0A):
        i += 1
    return i


@kernel
def _string_end(data: Bytes, i: int, end: int) -> tuple[int, bool]:
    """From behind the opening quote: the position of the closing one (-1: none), and whether it has escapes."""
    escaped = False
    while i < end:
        byte = data[i]
        if byte == _QUOTE:
            return i, escaped
        if byte < 0x20:
            return -1, escaped
        if byte != _BACKSLASH:
            i += 1
            continue
        escaped = True
        if i + 1 >= end:
            return -1, escaped
        byte = data[i + 1]
        if byte == 0x75:  # u
            if i + 6 > end or hex4(data, i + 2) < 0:
                return -1, escaped
            i += 6
        elif byte in (0x22, 0x5C, 0x2F, 0x62, 0x66, 0x6E, 0x72, 0x74):  # " \ / b f n r t
            i += 2
        else:
            return -1, escaped
    return -1, escaped


@kernel
def _digits_end(data: Bytes, i: int, end: int) -> int:
    """Behind one or more digits, or -1."""
    first = i
    while i < end and 0x30 <= data[i] <= 0x39:
        i += 1
    return i if i > first else -1


@kernel
def _number_end(data: Bytes, i: int, end: int) -> int:
    """Behind a number, or -1."""
    if data[i] == 0x2D:
        i += 1
    if i < end and data[i] == 0x30:
        i += 1
    else:
        i = _digits_end(data, i, end)
    if i >= 0 and i < end and data[i] == 0x2E:
        i = _digits_end(data, i + 1, end)
    if i >= 0 and i < end and data[i] | 0x20 == 0x65:
        i += 1
        if i < end and (data[i] == 0x2B or data[i] == 0x2D):
            i += 1
        i = _digits_end(data, i, end)
    return i


@kernel
def _word_end(data: Bytes, i: int, end: int) -> tuple[int, int]:
    """Behind `true`, `false` or `null` (-1: none of them), and its kind."""
    if i + 4 <= end and data[i] == 0x74 and data[i + 1] == 0x72 and data[i + 2] == 0x75 and data[i + 3] == 0x65:
        return i + 4, BOOLEAN
    if i + 4 <= end and data[i] == 0x6E and data[i + 1] == 0x75 and data[i + 2] == 0x6C and data[i + 3] == 0x6C:
        return i + 4, NULL
    if i + 5 <= end and data[i] == 0x66 and data[i + 1] == 0x61 and data[i + 2] == 0x6C and data[i + 3] == 0x73:
        return (i + 5, BOOLEAN) if data[i + 4] == 0x65 else (-1, ABSENT)
    return -1, ABSENT


@kernel
def _scalar_end(data: Bytes, i: int, end: int) -> tuple[int, int]:
    """Behind a string, number or word (-1: it is none), and its kind. The caller knows that there is a byte."""
    byte = data[i]
    if byte == _QUOTE:
        close, escaped = _string_end(data, i + 1, end)
        return (close + 1 if close >= 0 else -1), (ESCAPED if escaped else TEXT)
    if byte == 0x2D or 0x30 <= byte <= 0x39:
        return _number_end(data, i, end), NUMBER
    return _word_end(data, i, end)


@kernel
def _value_begin(data: Bytes, i: int, end: int) -> int:
    """From a member's name to the first byte of its value, or -1."""
    if i >= end or data[i] != _QUOTE:
        return -1
    close, _ = _string_end(data, i + 1, end)
    if close < 0:
        return -1
    i = _skip_space(data, close + 1, end)
    if i >= end or data[i] != _COLON:
        return -1
    i = _skip_space(data, i + 1, end)
    return i if i < end else -1


@kernel
def _nested_end(data: Bytes, i: int, end: int) -> int:
    """Behind an object or array that begins at `i`, or -1. `stack` has a bit per open container: 1 is an object."""
    stack, depth = np.uint64(0), 0
    one = np.uint64(1)
    while True:
        if data[i] == _BRACE or data[i] == _BRACKET:
            in_object = data[i] == _BRACE
            if depth == DEEPEST:
                return -1
            depth += 1
            stack = (stack << one) | (one if in_object else np.uint64(0))
            i = _skip_space(data, i + 1, end)
            if i >= end:
                return -1
            if data[i] != (_BRACE_END if in_object else _BRACKET_END):
                if in_object:
                    i = _value_begin(data, i, end)
                    if i < 0:
                        return -1
                continue  # the first value inside
        else:
            i, _ = _scalar_end(data, i, end)
            if i < 0:
                return -1
            i = _skip_space(data, i, end)
        while i < end and data[i] == (_BRACE_END if stack & one else _BRACKET_END):
            stack >>= one
            depth -= 1
            if depth == 0:
                return i + 1
            i = _skip_space(data, i + 1, end)
        if i >= end or data[i] != _COMMA:
            return -1
        i = _skip_space(data, i + 1, end)
        if stack & one:
            i = _value_begin(data, i, end)
        if i < 0 or i >= end:
            return -1


@kernel
def _same(data: Bytes, start: int, end: int, names: Bytes, first: int, last: int) -> bool:
    if end - start != last - first:
        return False
    same = 0
    while same < end - start and data[start + same] == names[first + same]:
        same += 1
    return same == end - start


@kernel
def _field_of(data: Bytes, start: int, end: int, names: Bytes, name_ends: I32, guess: int) -> int:
    """The number of the declared field with this name, or -1. `guess` is tried first: lines are mostly alike."""
    count = len(name_ends)
    for step in range(count):
        field = guess + step
        if field >= count:
            field -= count
        first = name_ends[field - 1] if field else 0
        if _same(data, start, end, names, first, name_ends[field]):
            return field
    return -1


@kernel
def _scan_object(
    data: Bytes, i: int, end: int, row: int, names: Bytes, name_ends: I32, scratch: Bytes,
    starts: I32, ends: I32, kinds: Bytes, extra: Bytes, extra_at: int,
) -> int:  # fmt: skip
    """Find the declared fields of one line and copy the others to `extra`; the position behind them, or -1."""
    first_extra, guess = extra_at, 0
    if i + 3 <= end and data[i] == 0xEF and data[i + 1] == 0xBB and data[i + 2] == 0xBF:
        i += 3
    i = _skip_space(data, i, end)
    if i >= end or data[i] != _BRACE:
        return -1
    i = _skip_space(data, i + 1, end)
    empty = i < end and data[i] == _BRACE_END
    while not empty:
        # 1. the name
        name = i
        if i >= end or data[i] != _QUOTE:
            return -1
        close, escaped = _string_end(data, i + 1, end)
        if close < 0:
            return -1
        if not escaped:
            field = _field_of(data, i + 1, close, names, name_ends, guess)
        elif close - name - 1 <= len(scratch):
            size = unescape(data, i + 1, close, scratch, 0)
            field = _field_of(scratch, 0, size, names, name_ends, guess) if size >= 0 else -1
        else:
            field = -1  # longer than the longest name with every byte escaped
        # 2. the value
        i = _skip_space(data, close + 1, end)
        if i >= end or data[i] != _COLON:
            return -1
        i = _skip_space(data, i + 1, end)
        if i >= end:
            return -1
        value = i
        if data[i] == _BRACE or data[i] == _BRACKET:
            i, kind = _nested_end(data, i, end), NESTED
        else:
            i, kind = _scalar_end(data, i, end)
        if i < 0:
            return -1
        # 3. keep it
        if field >= 0:
            if kinds[field, row] != ABSENT:
                return -1
            quotes = 1 if kind in (TEXT, ESCAPED) else 0
            starts[field, row], ends[field, row], kinds[field, row] = value + quotes, i - quotes, kind
            guess = field + 1 if field + 1 < len(name_ends) else 0
        else:
            extra[extra_at] = _BRACE if extra_at == first_extra else _COMMA
            extra_at += 1
            for j in range(name, i):
                extra[extra_at] = data[j]
                extra_at += 1
        # 4. the next one, or the end
        i = _skip_space(data, i, end)
        if i >= end:
            return -1
        if data[i] == _BRACE_END:
            break
        if data[i] != _COMMA:
            return -1
        i = _skip_space(data, i + 1, end)
    if _skip_space(data, i + 1, end) != end:
        return -1
    if extra_at > first_extra:
        extra[extra_at] = _BRACE_END
        extra_at += 1
    return extra_at


@kernel
def scan_objects(
    data: Bytes, start: I32, end: I32, readable: Mask, names: Bytes, name_ends: I32, scratch: Bytes,
    starts: I32, ends: I32, kinds: Bytes, extra: Bytes, extra_offsets: I32,
) -> None:  # fmt: skip
    """Scan every readable line; `readable` becomes false where a line is malformed. `kinds` comes full of ABSENT.

    `extra` has room for all lines: what is copied of one is never longer than the line.
    """
    at = 0
    extra_offsets[0] = 0
    for row in range(len(start)):
        if readable[row]:
            after = _scan_object(
                data, start[row], end[row], row, names, name_ends, scratch, starts, ends, kinds, extra, at
            )
            if after >= 0:
                at = after
            else:
                readable[row] = False
                for field in range(len(name_ends)):
                    kinds[field, row] = ABSENT
        extra_offsets[row + 1] = at
