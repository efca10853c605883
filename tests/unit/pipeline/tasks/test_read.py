"""The task that reads: keys of events, also of those that have none, and how they are dealt out."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from etl.adapters.claims import lanes
from etl.contract.model import Field, Source, Stream
from etl.contract.words.types import arrow_type
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.read import _dealt, event_keys

VALUES = {
    "bigint": [1, 2],
    "int": [1, 2],
    "string": ["a", "b"],
    "date": [date(2026, 1, 1), date(2026, 1, 2)],
    "timestamp": [datetime(2026, 1, 1), datetime(2026, 1, 1, microsecond=1)],
    "decimal(10,2)": [Decimal("1.00"), Decimal("1.01")],
    "boolean": [True, False],
    "double": [1.0, 1.5],
}


def keys(*kinds: str) -> list[tuple[int, int]]:
    """Keys of four events: one, another, the first again, and one without any value."""
    fields = tuple(Field(f"f{number}", arrow_type(kind)) for number, kind in enumerate(kinds))
    stream = Stream(Source(Path()), fields, tuple(field.name for field in fields))
    columns = [pa.array([*VALUES[kind], VALUES[kind][0], None], arrow_type(kind)) for kind in kinds]
    lo, hi = lanes(event_keys(pa.RecordBatch.from_arrays(columns, schema=stream.schema), stream))
    return list(zip(lo.tolist(), hi.tolist(), strict=True))


@pytest.mark.parametrize("kind", VALUES)
def test_a_key_of_any_type_tells_events_apart_and_one_without_value_stops_nothing(kind: str) -> None:
    for kinds in ((kind,), ("date", kind), (kind, "string", "decimal(10,2)")):
        first, other, again, _ = keys(*kinds)
        assert first == again != other


def test_rows_of_one_key_always_go_to_one_router_and_none_is_lost() -> None:
    rows = pa.table(
        {
            wire.KEY_LO: pa.array([number % 50 for number in range(1_000)], pa.uint64()),
            wire.KEY_HI: pa.array([number % 3 for number in range(1_000)], pa.uint64()),
            "n": range(1_000),
        }
    )
    parts: dict[tuple[int, int], set[int]] = {}
    seen: list[int] = []
    messages = list(_dealt(rows, 4))
    assert [message.part for message in messages] == [0, 1, 2, 3]
    for message in messages:
        part = wire.rows_of(message)
        for lo, hi, number in zip(*(part[name].to_pylist() for name in (wire.KEY_LO, wire.KEY_HI, "n")), strict=True):
            parts.setdefault((lo, hi), set()).add(message.part)
            seen.append(number)
        assert part["n"].to_pylist() == sorted(part["n"].to_pylist()), "in their order of arrival"
    assert sorted(seen) == list(range(1_000))
    assert {len(found) for found in parts.values()} == {1}
    assert len(list(_dealt(rows, 1))) == 1
    assert list(_dealt(rows.slice(0, 0), 1)) == []
