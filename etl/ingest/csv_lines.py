"""CSV: one record a line, under a header → the text of every declared field.

    bad_utf8        the line is not UTF-8
    malformed_csv   more or fewer values than the header has names, or quotes that do not close or stand inside a value

The header belongs to the file, so the caller hands it over with every block. Columns are found by name, in any order.
Under a header that cannot be read, or names a declared field twice, every line is malformed.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence

import numpy as np

from etl.contract.model import Field, Stream
from etl.contract.words.delimiters import is_delimiter
from etl.errors import TerminalError
from etl.ingest.kernels.csv_text import scan_records
from etl.ingest.kernels.spans import ABSENT
from etl.ingest.lines import Lines
from etl.ingest.texts import Parsed, Texts, read_only, strings, unreadable

LONGEST_NAME = 256
"""Bytes of a column's name in JSON. Names of undeclared columns are repeated in `extra`, so they bound its size."""
_LARGEST_EXTRA = 2**31 - 1


class DelimiterUnsupported(TerminalError):
    """A delimiter that is not one ASCII character, or has another meaning."""

    def __init__(self, delimiter: str) -> None:
        super().__init__(delimiter)
        self.delimiter = delimiter

    def __str__(self) -> str:
        return f"delimiter {self.delimiter!r} is not allowed; give one ASCII character other than quote and line end"


class ExtraTooLarge(TerminalError):
    """The undeclared columns of a block may need more than one column of text can hold."""

    def __init__(self, bytes: int, lines: int) -> None:
        super().__init__(bytes, lines)
        self.bytes, self.lines = bytes, lines

    def __str__(self) -> str:
        return (
            f"undeclared columns of {self.lines:,} lines of CSV may need {self.bytes:,} bytes, which is more than "
            f"{_LARGEST_EXTRA:,}; declare them, or give the lines in smaller files"
        )


def split_header(lines: Lines) -> tuple[bytes, Lines]:
    """The first line of a file, and the others. A header that is too long is none."""
    if not len(lines):
        return b"", lines
    header = b"" if lines.too_long[0] else lines.data[lines.start[0] : lines.end[0]].tobytes()
    return header, lines.without_first()


def csv_header(stream: Stream) -> bytes:
    """The header of lines that come without one: the declared fields, each once, as the input calls them."""
    names = dict.fromkeys(one.source_name for one in stream.fields)
    line = io.StringIO()
    csv.writer(line, delimiter=stream.source.delimiter, lineterminator="").writerow(names)
    return line.getvalue().encode()


def parse(lines: Lines, fields: Sequence[Field], header: bytes, delimiter: str = ",") -> Parsed:
    """Split every line into the texts of its fields."""
    if not is_delimiter(delimiter):
        raise DelimiterUnsupported(delimiter)
    names, prefixes = _column_names(header, fields, delimiter)
    bad_utf8, readable = unreadable(lines)
    scanned = readable.copy() if names else np.zeros_like(readable)
    sources = dict.fromkeys(field.source_name for field in fields)  # two fields may read one value
    numbers = {source: number for number, source in enumerate(sources)}
    rows = len(lines)
    start, end = np.zeros((2, len(numbers), rows), np.int32)
    kind = np.full((len(numbers), rows), ABSENT, np.uint8)
    room = _room_for_extra(lines, [prefix for prefix, name in zip(prefixes, names, strict=True) if name not in numbers])
    extra, offsets = np.empty(room, np.uint8), np.empty(rows + 1, np.int32)
    scan_records(
        lines.data, lines.start, lines.end, scanned, ord(delimiter),
        np.array([numbers.get(name, -1) for name in names], np.int32),
        read_only(np.frombuffer(b"".join(prefixes), np.uint8)),
        np.cumsum([len(prefix) for prefix in prefixes], dtype=np.int32),
        start, end, kind, extra, offsets,
    )  # fmt: skip
    broken = (("line_too_long", lines.too_long), ("bad_utf8", bad_utf8), ("malformed_csv", readable & ~scanned))
    return Parsed(
        tuple(
            Texts(lines.data, start[one], end[one], kind[one])
            for one in (numbers[field.source_name] for field in fields)
        ),
        strings(extra[: offsets[-1]].copy(), offsets, np.diff(offsets) > 0),
        broken,
    )


def _column_names(header: bytes, fields: Sequence[Field], delimiter: str) -> tuple[list[str], list[bytes]]:
    """The names of the columns, and each as `"name":` in JSON; none when the header is unusable."""
    try:
        text = header.decode("utf-8-sig").removesuffix("\r")
        names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter, strict=True), [])]
    except (UnicodeDecodeError, csv.Error):
        return [], []
    counts = Counter(names)
    prefixes = [json.dumps(name, ensure_ascii=False).encode() + b":" for name in names]
    longest = max(map(len, prefixes), default=0) - len(b'"":')
    usable = longest <= LONGEST_NAME and all(counts[field.source_name] <= 1 for field in fields)
    return (names, prefixes) if usable else ([], [])


def _room_for_extra(lines: Lines, prefixes: Sequence[bytes]) -> int:
    """Upper bound of the size of `extra`: six bytes per byte, and per value its name, quotes, and a comma or brace.

    A value that is written has a byte, and a delimiter follows it, so a line has values for half of its bytes at most.
    """
    if not prefixes:
        return 0
    longest_first = sorted((len(prefix) + 3 for prefix in prefixes), reverse=True)
    names = np.cumsum([0, *longest_first], dtype=np.int64)
    values = np.minimum((lines.end - lines.start + 2) // 2, len(prefixes))
    room = 6 * len(lines.data) + int(names[values].sum()) + 2 * len(lines)
    if room > _LARGEST_EXTRA:
        raise ExtraTooLarge(room, len(lines))
    return room
