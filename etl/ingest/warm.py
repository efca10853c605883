"""Compile the kernels of ingest, or load them, by reading one event of every format and type."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from etl.contract.model import Field, Source, Stream
from etl.contract.words.types import arrow_type
from etl.ingest.events import parse_events
from etl.ingest.lines import split
from etl.ingest.parquet_rows import parse_rows
from etl.ingest.payload import payload_hash

_TYPES = ("bigint", "int", "decimal(18,4)", "double", "boolean", "string", "date", "timestamp")
_JSON = b'{"a":1,"b":2,"c":3.5,"d":1e3,"e":true,"f":"x\\u00e9","g":"2026-01-01","h":"2026-01-01T00:00:00Z","i":[1]}\n'
_CSV = b'1,2,3.5,1e3,true,"x ""y""",2026-01-01,2026-01-01 00:00:00,more\n'


def warm() -> None:
    """Read one event of every format and type."""
    fields = tuple(Field(name, arrow_type(kind)) for name, kind in zip("abcdefgh", _TYPES, strict=True))
    for format, data in (("jsonl", _JSON), ("csv", _CSV)):
        stream = Stream(Source(Path(), format), fields, ("a",))  # type: ignore[arg-type]  # both are formats
        events = parse_events(split(data, 1), stream, b"a,b,c,d,e,f,g,h,i")
        payload_hash(events.batch)
    rows = pa.RecordBatch.from_pydict({"a": [1], "f": ["x"], "h": ["2026-01-01"]})
    parse_rows(rows, Stream(Source(Path(), "parquet"), fields, ("a",)))
