"""UTF-8: validity of a span of bytes, and writing one code point."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import kernel

Bytes = npt.NDArray[np.uint8]


@kernel
def is_utf8(data: Bytes, start: int, end: int) -> bool:
    """Well-formed UTF-8: no overlong form, no surrogate, nothing above U+10FFFF, nothing cut off."""
    i = start
    while i < end:
        lead = int(data[i])
        if lead < 0x80:
            i += 1
            continue
        if lead < 0xC2 or lead > 0xF4:
            return False
        low, high, size = 0x80, 0xBF, 2
        if lead >= 0xF0:
            size = 4
            low = 0x90 if lead == 0xF0 else 0x80
            high = 0x8F if lead == 0xF4 else 0xBF
        elif lead >= 0xE0:
            size = 3
            low = 0xA0 if lead == 0xE0 else 0x80
            high = 0x9F if lead == 0xED else 0xBF
        if i + size > end or data[i + 1] < low or data[i + 1] > high:
            return False
        for j in range(i + 2, i + size):
            if data[j] & 0xC0 != 0x80:
                return False
        i += size
    return True


@kernel
def put_code_point(code: int, out: Bytes, at: int) -> int:
    """Write a code point, at most four bytes; returns the position behind it."""
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at] = 0xC0 | (code >> 6)
        out[at + 1] = 0x80 | (code & 0x3F)
        return at + 2
    if code < 0x10000:
        out[at] = 0xE0 | (code >> 12)
        out[at + 1] = 0x80 | ((code >> 6) & 0x3F)
        out[at + 2] = 0x80 | (code & 0x3F)
        return at + 3
    out[at] = 0xF0 | (code >> 18)
    out[at + 1] = 0x80 | ((code >> 12) & 0x3F)
    out[at + 2] = 0x80 | ((code >> 6) & 0x3F)
    out[at + 3] = 0x80 | (code & 0x3F)
    return at + 4
