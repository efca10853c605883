"""Values as spans of bytes, and how a span becomes text.

    kind      the span holds                                      text
    ABSENT    nothing: the field is not there                     -
    NULL      nothing: JSON null                                  -
    NUMBER    a JSON number                                       as it stands
    BOOLEAN   true or false                                       as it stands
    TEXT      a string or CSV value, between its quotes           as it stands
    ESCAPED   a JSON string with backslashes                      escapes resolved
    DOUBLED   a CSV value with doubled quotes                     quotes halved
    NESTED    a JSON object or array                              as it stands
    UNUSABLE  something that is not text at all (Parquet)         -

Text is UTF-8 without NUL, which Postgres cannot hold: a value with NUL or with half a surrogate pair is not text.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import kernel
from etl.ingest.kernels.utf8 import Bytes, put_code_point

I32 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

ABSENT: Final = 0
NULL: Final = 1
NUMBER: Final = 2
BOOLEAN: Final = 3
TEXT: Final = 4
ESCAPED: Final = 5
DOUBLED: Final = 6
NESTED: Final = 7
UNUSABLE: Final = 8

_BACKSLASH: Final = 0x5C
_QUOTE: Final = 0x22


@kernel
def is_space(byte: int) -> bool:
    """ASCII white space: tab to carriage return, and space."""
    return byte == 0x20 or 0x09 <= byte <= 0x0D


@kernel
def trimmed(data: Bytes, start: int, end: int) -> tuple[int, int]:
    """The span without white space at its ends."""
    while start < end and is_space(data[start]):
        start += 1
    while end > start and is_space(data[end - 1]):
        end -= 1
    return start, end


@kernel
def hex4(data: Bytes, at: int) -> int:
    """The value of four hexadecimal digits, or -1. The caller knows that four bytes are there."""
    value = 0
    for i in range(at, at + 4):
        byte = int(data[i])
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x61 <= byte | 0x20 <= 0x66:
            digit = (byte | 0x20) - 0x57
        else:
            return -1
        value = value * 16 + digit
    return value


@kernel
def _single_escape(byte: int) -> int:
    """The character of a two-character escape whose second byte is given."""
    if byte == 0x62:
        return 0x08
    if byte == 0x66:
        return 0x0C
    if byte == 0x6E:
        return 0x0A
    if byte == 0x72:
        return 0x0D
    if byte == 0x74:
        return 0x09
    return byte  # quote, backslash, slash


@kernel
def unescape(data: Bytes, start: int, end: int, out: Bytes, at: int) -> int:
    """Write a JSON string without its escapes; the position behind it, or -1 when it is not text.

    The span is known to be well formed. No result is longer than its span.
    """
    i = start
    while i < end:
        byte = int(data[i])
        if byte != _BACKSLASH:
            out[at] = byte
            at += 1
            i += 1
        elif data[i + 1] != 0x75:
            out[at] = _single_escape(int(data[i + 1]))
            at += 1
            i += 2
        else:
            code = hex4(data, i + 2)
            i += 6
            if 0xD800 <= code < 0xDC00 and i + 6 <= end and data[i] == _BACKSLASH and data[i + 1] == 0x75:
                low = hex4(data, i + 2)
                if 0xDC00 <= low < 0xE000:
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                    i += 6
            if code == 0 or 0xD800 <= code < 0xE000:
                return -1
            at = put_code_point(code, out, at)
    return at


@kernel
def _copy(data: Bytes, start: int, end: int, doubled: bool, out: Bytes, at: int) -> int:
    """Copy a span, halving doubled quotes where asked; -1 when it holds NUL."""
    i = start
    while i < end:
        byte = data[i]
        if byte == 0:
            return -1
        out[at] = byte
        at += 1
        i += 2 if doubled and byte == _QUOTE else 1
    return at


@kernel
def _without(out: Bytes, start: int, end: int, strip: Bytes, strip_ends: I32) -> int:
    """Remove every occurrence of some characters, in place; `strip` holds them in UTF-8, one behind the other."""
    at = i = start
    while i < end:
        removed = 0
        first = 0
        for last in strip_ends:
            size = last - first
            if i + size <= end:
                same = 0
                while same < size and out[i + same] == strip[first + same]:
                    same += 1
                if same == size:
                    removed = size
            first = last
        if removed:
            i += removed
        else:
            out[at] = out[i]
            at += 1
            i += 1
    return at


@kernel
def write_texts(
    data: Bytes, start: I32, end: I32, kind: Bytes, strip: Bytes, strip_ends: I32, out: Bytes, offsets: I32, ok: Mask
) -> None:
    """Write all texts behind one another, as Arrow lays out strings; `ok` says which rows have one."""
    at = 0
    offsets[0] = 0
    for row in range(len(start)):
        ok[row] = False
        if NULL < kind[row] < UNUSABLE:
            if kind[row] == ESCAPED:
                after = unescape(data, start[row], end[row], out, at)
            else:
                after = _copy(data, start[row], end[row], kind[row] == DOUBLED, out, at)
            if after >= 0:
                ok[row] = True
                at = _without(out, at, after, strip, strip_ends) if len(strip) else after
        offsets[row + 1] = at
