"""Values as JSON text: strings quoted and escaped, everything else as it stands."""

from __future__ import annotations

from typing import Final

from etl.columnar.jit import kernel
from etl.ingest.kernels.spans import I32, TEXT
from etl.ingest.kernels.utf8 import Bytes

_QUOTE: Final = 0x22
_BACKSLASH: Final = 0x5C


@kernel
def _put_hex(out: Bytes, at: int, digit: int) -> int:
    out[at] = digit + (0x30 if digit < 10 else 0x57)
    return at + 1


@kernel
def put_json_string(data: Bytes, i: int, end: int, doubled: bool, out: Bytes, at: int) -> int:
    """Write text as a JSON string, at most six bytes for one and two quotes; `doubled`: its quotes come in pairs."""
    out[at] = _QUOTE
    at += 1
    while i < end:
        byte = data[i]
        i += 2 if doubled and byte == _QUOTE else 1
        if byte < 0x20:
            for code in (_BACKSLASH, 0x75, 0x30, 0x30):  # u00
                out[at] = code
                at += 1
            at = _put_hex(out, at, byte >> 4)
            at = _put_hex(out, at, byte & 0x0F)
            continue
        if byte in (_QUOTE, _BACKSLASH):
            out[at] = _BACKSLASH
            at += 1
        out[at] = byte
        at += 1
    out[at] = _QUOTE
    return at + 1


@kernel
def write_lexemes(data: Bytes, start: I32, end: I32, kind: Bytes, out: Bytes, offsets: I32) -> None:
    """Write the JSON text of every value behind one another."""
    at = 0
    offsets[0] = 0
    for row in range(len(start)):
        if kind[row] == TEXT:
            at = put_json_string(data, start[row], end[row], False, out, at)
        else:
            for i in range(start[row], end[row]):
                out[at] = data[i]
                at += 1
        offsets[row + 1] = at
