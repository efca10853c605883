"""CSV by RFC 4180, one record a line: where each declared field's value lies in its line.

    7,"a ""b"" c",,x        TEXT  DOUBLED  ABSENT  TEXT

A value is either all within quotes, where a quote is doubled, or has no quote at all. An empty value without quotes is
absent; `""` is an empty text. Columns that are not declared are written to `extra` as a JSON object of strings.
"""

from __future__ import annotations

from typing import Final

from etl.columnar.jit import kernel
from etl.ingest.kernels.json_write import put_json_string
from etl.ingest.kernels.spans import ABSENT, DOUBLED, I32, TEXT, Mask
from etl.ingest.kernels.utf8 import Bytes

_QUOTE: Final = 0x22


@kernel
def _value_end(data: Bytes, i: int, end: int, delimiter: int) -> tuple[int, int]:
    """Behind the value that begins at `i`, quotes included (-1: its quotes are wrong), and its kind."""
    if i >= end or data[i] != _QUOTE:
        first = i
        while i < end and data[i] != delimiter:
            if data[i] == _QUOTE:
                return -1, ABSENT
            i += 1
        return i, (TEXT if i > first else ABSENT)
    i += 1
    kind = TEXT
    while i < end:
        if data[i] != _QUOTE:
            i += 1
        elif i + 1 < end and data[i + 1] == _QUOTE:
            kind = DOUBLED
            i += 2
        elif i + 1 == end or data[i + 1] == delimiter:
            return i + 1, kind
        else:
            return -1, ABSENT
    return -1, ABSENT


@kernel
def _scan_record(
    data: Bytes, i: int, end: int, row: int, delimiter: int, field_of: I32, names: Bytes, name_ends: I32,
    starts: I32, ends: I32, kinds: Bytes, extra: Bytes, extra_at: int,
) -> int:  # fmt: skip
    """Find the declared fields of one record and write the others to `extra`; the position behind them, or -1."""
    first_extra, last = extra_at, len(field_of) - 1
    for column in range(len(field_of)):
        after, kind = _value_end(data, i, end, delimiter)
        if after < 0 or (after == end) != (column == last):
            return -1
        quotes = 1 if after > i and data[i] == _QUOTE else 0
        field = field_of[column]
        if field >= 0:
            starts[field, row], ends[field, row], kinds[field, row] = i + quotes, after - quotes, kind
        elif kind != ABSENT:
            extra[extra_at] = 0x7B if extra_at == first_extra else 0x2C  # { or ,
            extra_at += 1
            for j in range(name_ends[column - 1] if column else 0, name_ends[column]):
                extra[extra_at] = names[j]
                extra_at += 1
            extra_at = put_json_string(data, i + quotes, after - quotes, kind == DOUBLED, extra, extra_at)
        i = after + 1
    if extra_at > first_extra:
        extra[extra_at] = 0x7D
        extra_at += 1
    return extra_at


@kernel
def scan_records(
    data: Bytes, start: I32, end: I32, readable: Mask, delimiter: int, field_of: I32, names: Bytes, name_ends: I32,
    starts: I32, ends: I32, kinds: Bytes, extra: Bytes, extra_offsets: I32,
) -> None:  # fmt: skip
    """Scan every readable line; `readable` becomes false where a record is malformed. `kinds` comes full of ABSENT.

    `field_of` has the field of every column, -1 for those not declared; `names` has `"name":` of every column.
    """
    at = 0
    extra_offsets[0] = 0
    for row in range(len(start)):
        if readable[row]:
            after = _scan_record(
                data, start[row], end[row], row, delimiter, field_of, names, name_ends, starts, ends, kinds, extra, at
            )
            if after >= 0:
                at = after
            else:
                readable[row] = False
                for field in range(len(kinds)):
                    kinds[field, row] = ABSENT
        extra_offsets[row + 1] = at
