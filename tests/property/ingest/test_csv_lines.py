"""CSV lines against Python's csv module: what it writes is read; and no input ever raises."""

from __future__ import annotations

import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from etl.contract.model import Field
from etl.contract.words.types import arrow_type
from etl.ingest import lines
from etl.ingest.events import EXTRA, parse_events
from tests.support.event_lines import stream

STREAM = stream(
    Field("a", arrow_type("string"), required=False), Field("b", arrow_type("int"), required=False), form="csv"
)
TEXTS = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=8)
ALPHABET = st.sampled_from([*b'"",,ab1 \n\r', 0, 0xFF, 0xC3, 0xA9])


@given(
    st.lists(st.tuples(TEXTS, TEXTS, st.integers(0, 99)), max_size=5),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
)
def test_what_python_writes_is_read(rows: list[tuple[str, str, int]], quoting: int) -> None:
    file = io.StringIO()
    csv.writer(file, quoting=quoting, lineterminator="\n").writerows(rows)
    events = parse_events(lines.split(file.getvalue().encode(), 1), STREAM, b"a,other,b")
    assert not any(events.reasons.to_pylist())
    empty = None if quoting == csv.QUOTE_MINIMAL else ""
    found = [(row["a"], (json.loads(row[EXTRA] or "{}")).get("other"), row["b"]) for row in events.batch.to_pylist()]
    assert found == [(a or empty, other or empty, b) for a, other, b in rows]


@given(
    st.binary() | st.lists(ALPHABET).map(bytes), st.binary(max_size=20) | st.sampled_from([b"a,b", b"b,x,a", b"x,y"])
)
def test_any_bytes_give_one_row_per_line(data: bytes, header: bytes) -> None:
    events = parse_events(lines.split(data, 1), STREAM, header)
    assert len(events) == sum(bool(line.strip()) for line in data.split(b"\n"))
    events.batch.validate(full=True)
    assert all(json.loads(text) for text in events.batch.column(EXTRA).to_pylist() if text is not None)
