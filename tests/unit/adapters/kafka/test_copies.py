"""A copy is whole or not there; its messages become lines numbered by their offsets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from etl.adapters.kafka.copies import SCHEMA, Copy, CopyReader, CopyWriter, copies_in, copy_path, missing
from etl.adapters.kafka.errors import CopyMissing
from etl.adapters.landing import LandedFile, Slice
from etl.ingest.lines import KEPT_OF_TOO_LONG, LONGEST_LINE, of_values

FIXED_AT = datetime(2026, 11, 18, 12, tzinfo=UTC)
SLICE = Slice(0, LandedFile(b"orders.eu/3", 0, int(FIXED_AT.timestamp() * 1e9), 0xFEDCBA9876543210), 10, 20)


def records(*messages: tuple[int, datetime | None, bytes | None]) -> pa.RecordBatch:
    columns = zip(*messages, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def test_a_copy_is_there_when_it_is_whole(tmp_path: Path) -> None:
    path = copy_path(tmp_path, SLICE)
    writer = CopyWriter(path)
    writer.write(records((10, None, b"a"), (12, FIXED_AT.replace(hour=11), None)))
    assert missing(tmp_path, (SLICE,)) == (SLICE,)
    with pytest.raises(CopyMissing):
        list(CopyReader(tmp_path, SLICE).records())
    writer.close()
    assert missing(tmp_path, (SLICE,)) == ()
    assert copies_in(path.parent) == [Copy(path, "orders.eu", 0xFEDCBA9876543210, 3, 10, 20)]
    reader = CopyReader(tmp_path, SLICE)
    (found,) = reader.records()
    assert found.column("value").to_pylist() == [b"a", None]
    assert reader.digest


def test_messages_landed_when_kafka_says_but_not_after_they_were_fixed(tmp_path: Path) -> None:
    writer = CopyWriter(copy_path(tmp_path, SLICE))
    earlier, later = FIXED_AT.replace(hour=11), FIXED_AT.replace(hour=13)
    writer.write(records((10, earlier, b"a"), (11, later, b"b"), (13, None, b"c")))
    writer.close()
    reader = CopyReader(tmp_path, SLICE)
    for _ in reader.records():
        landed = reader.landed_at(np.array([13, 10, 11]))
        assert landed.to_pylist() == [FIXED_AT, earlier, FIXED_AT]


def test_a_try_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path = copy_path(tmp_path, SLICE)
    CopyWriter(path).abandon()
    assert list(path.parent.iterdir()) == []


def test_values_are_whole_lines_whatever_they_hold() -> None:
    values = pa.array([b"first", b"a\nb", b"", b"x" * (LONGEST_LINE + 1), b" "], pa.binary())[1:]
    lines = of_values(values, np.array([5, 7, 8, 9]))
    assert lines.raw.to_pylist() == [b"a\nb", b"", b"x" * KEPT_OF_TOO_LONG, b" "]
    assert lines.too_long.tolist() == [False, False, True, False]
    assert lines.number.tolist() == [5, 7, 8, 9]
