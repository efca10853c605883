"""The payload's hash: what counts, and that it never changes."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa

from etl.contract.model import Field
from etl.contract.words.types import arrow_type
from etl.ingest.payload import payload_hash
from tests.support.event_lines import parsed


def hashes(text: bytes, *fields: Field) -> list[int]:
    events = parsed(text, *fields)
    return list(payload_hash(events.batch).tolist())


def test_writing_does_not_count_and_content_does() -> None:
    fields = (
        Field("a", arrow_type("int")),
        Field("b", arrow_type("decimal(9,2)")),
        Field("c", arrow_type("string"), required=False),
    )
    same = hashes(b'{"a":1,"b":2.5,"c":"x"}\n{ "c":"\\u0078", "b":"2.50", "a":"1" , "d":9}', *fields)
    assert len(set(same)) == 1
    other = hashes(
        b'{"a":1,"b":2.5}\n{"a":1,"b":2.5,"c":""}\n{"a":1,"b":-2.5,"c":"x"}\n{"a":2,"b":2.5,"c":"x"}', *fields
    )
    assert len({*same, *other}) == 5


def test_values_do_not_run_into_one_another() -> None:
    fields = (Field("a", arrow_type("string")), Field("b", arrow_type("string")))
    assert (
        len(set(hashes(b'{"a":"ab","b":"c"}\n{"a":"a","b":"bc"}\n{"a":"","b":"abc"}\n{"a":"c","b":"ab"}', *fields)))
        == 4
    )


def test_slices_and_zeros_hash_like_whole_columns() -> None:
    batch = pa.record_batch(
        {"s": ["x", None, "long text of many bytes"], "f": [0.0, -0.0, None], "t": [True, None, False]}
    )
    assert payload_hash(batch).tolist() == [payload_hash(batch.slice(row, 1))[0] for row in range(3)]
    zeros = pa.record_batch({"f": [0.0, -0.0]})
    assert len(set(payload_hash(zeros).tolist())) == 1


def test_the_function_is_fixed_because_hashes_are_kept() -> None:
    batch = pa.record_batch(
        {
            "id": pa.array([7], pa.int64()),
            "n": pa.array([-1], pa.int32()),
            "price": pa.array([Decimal("1.5000")], pa.decimal128(18, 4)),
            "at": pa.array([datetime(2026, 11, 17, tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "note": ["grün"],
            "ok": [True],
            "none": pa.nulls(1, pa.string()),
        }
    )
    assert payload_hash(batch).tolist() == [PINNED]
    assert payload_hash(batch).dtype == np.int64


PINNED = -3773289560570384621
