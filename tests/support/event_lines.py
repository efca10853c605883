"""A stream of orders as tests declare it, and ways to feed it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from etl.contract.model import Field, Format, Source, Stream
from etl.contract.words.types import arrow_type
from etl.ingest import lines
from etl.ingest.events import Events, parse_events

ORDER = (
    Field("order_id", arrow_type("bigint")),
    Field("customer_id", arrow_type("bigint")),
    Field("product_id", arrow_type("bigint")),
    Field("quantity", arrow_type("int")),
    Field("unit_price", arrow_type("decimal(18,4)")),
    Field("ordered_at", arrow_type("timestamp")),
)


def stream(*fields: Field, form: Format = "jsonl", delimiter: str = ",") -> Stream:
    return Stream(Source(Path("landing"), form, delimiter), fields, (fields[0].name,))


def parsed(text: bytes, *fields: Field) -> Events:
    """The events of JSON lines."""
    return parse_events(lines.split(text, 1), stream(*(fields or ORDER)))


def one(value: Any, declared: str, **options: Any) -> tuple[Any, list[str]]:
    """What becomes of one value: what is stored, and the reasons. `bytes` are a JSON lexeme."""
    lexeme = value if isinstance(value, bytes) else json.dumps(value).encode()
    events = parsed(b'{"x":' + lexeme + b"}", Field("x", arrow_type(declared), **options))
    return events.batch.column(0)[0].as_py(), events.reasons[0].as_py()
