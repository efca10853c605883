"""JSON lines: one object a line → the text of every declared field.

    bad_utf8         the line is not UTF-8
    malformed_json   the line is not exactly one JSON object, or says a declared field twice, or nests too deep

The text is the lexeme as it stands in the line: decimals never pass through binary floating point. What is not
declared is copied into `extra`, as an object of its own, where it occurs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from etl.contract.model import Field
from etl.ingest.kernels.json_text import scan_objects
from etl.ingest.kernels.spans import ABSENT
from etl.ingest.lines import Lines
from etl.ingest.texts import Parsed, Texts, read_only, strings, unreadable


def parse(lines: Lines, fields: Sequence[Field]) -> Parsed:
    """Split every line into the texts of its fields."""
    bad_utf8, readable = unreadable(lines)
    scanned = readable.copy()
    sources = list(dict.fromkeys(field.source_name for field in fields))  # two fields may read one value
    names = [source.encode() for source in sources]
    ends = np.cumsum([len(name) for name in names], dtype=np.int32)
    rows = len(lines)
    start, end = np.empty((2, len(sources), rows), np.int32)
    kind = np.full((len(sources), rows), ABSENT, np.uint8)
    extra = np.empty(len(lines.data), np.uint8)
    offsets = np.empty(rows + 1, np.int32)
    scan_objects(
        lines.data, lines.start, lines.end, scanned,
        read_only(np.frombuffer(b"".join(names), np.uint8)), ends,
        np.empty(6 * max(map(len, names), default=0), np.uint8),
        start, end, kind, extra, offsets,
    )  # fmt: skip
    broken = (("line_too_long", lines.too_long), ("bad_utf8", bad_utf8), ("malformed_json", readable & ~scanned))
    return Parsed(
        tuple(
            Texts(lines.data, start[one], end[one], kind[one])
            for one in (sources.index(field.source_name) for field in fields)
        ),
        _extra(extra, offsets),
        broken,
    )


def _extra(data: np.ndarray, offsets: np.ndarray) -> pa.Array:
    valid = offsets[1:] > offsets[:-1]
    return strings(data[: offsets[-1]].copy(), offsets, valid)
