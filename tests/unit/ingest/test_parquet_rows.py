"""Parquet rows: the same events as lines give, whatever types the file has."""

from __future__ import annotations

import errno
import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from etl.contract.model import Field
from etl.contract.words.types import arrow_type
from etl.ingest.events import EXTRA
from etl.ingest.lines import KEPT_OF_TOO_LONG, LONGEST_LINE
from etl.ingest.parquet_batches import BYTES
from etl.ingest.parquet_rows import parse_rows, read_rows
from tests.support.event_lines import ORDER, stream

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def one(values: pa.Array, declared: str, **options: Any) -> list[tuple[Any, list[str]]]:
    events = parse_rows(pa.table({"x": values}), stream(Field("x", arrow_type(declared), **options)))
    events.batch.validate(full=True)
    return list(zip(events.batch.column("x").to_pylist(), events.reasons.to_pylist(), strict=True))


MOMENT = datetime(2026, 11, 17, 9, 30, 15, 123_000, tzinfo=UTC)

CONVERTED: list[tuple[pa.Array, str, Any]] = [
    (pa.array([7], pa.int64()), "int", 7),
    (pa.array([7], pa.uint8()), "bigint", 7),
    (pa.array([7.0]), "int", 7),
    (pa.array(["7"]), "int", 7),
    (pa.array([40.49]), "decimal(18,4)", Decimal("40.4900")),
    (pa.array([Decimal("1.23456")]), "decimal(18,4)", Decimal("1.2346")),
    (pa.array([Decimal("1.2345")], pa.decimal128(18, 4)), "decimal(18,4)", Decimal("1.2345")),
    (pa.array([1.5]), "double", 1.5),
    (pa.array([1], pa.int8()), "double", 1.0),
    (pa.array([True]), "boolean", True),
    (pa.array([True]), "string", "true"),
    (pa.array(["a"]).dictionary_encode(), "string", "a"),
    (pa.array(["ä"], pa.large_string()), "string", "ä"),
    (pa.array([b"ab"], pa.binary()), "string", "ab"),
    (pa.array([b"ab"], pa.binary(2)), "string", "ab"),
    (pa.array(["ab"], pa.string_view()), "string", "ab"),
    (pa.array([MOMENT], pa.timestamp("us", "UTC")), "timestamp", MOMENT),
    (pa.array([MOMENT], pa.timestamp("ns", "Europe/Berlin")), "timestamp", MOMENT),
    (pa.array([MOMENT.replace(tzinfo=None)], pa.timestamp("ms")), "timestamp", MOMENT),
    (pa.array([date(2026, 11, 17)]), "timestamp", datetime(2026, 11, 17, tzinfo=UTC)),
    (pa.array([date(2026, 11, 17)], pa.date64()), "date", date(2026, 11, 17)),
    (pa.array([datetime(1969, 11, 17)], pa.timestamp("s")), "date", date(1969, 11, 17)),
    (pa.array(["2026-11-17"]), "date", date(2026, 11, 17)),
]

REFUSED: list[tuple[pa.Array, str]] = [
    (pa.array([2**40]), "int"),
    (pa.array([2**64 - 1], pa.uint64()), "bigint"),
    (pa.array([2.5]), "int"),
    (pa.array([float("nan")]), "double"),
    (pa.array([float("inf")]), "double"),
    (pa.array([float("nan")]), "decimal(18,4)"),
    (pa.array([Decimal(10) ** 20]), "decimal(18,4)"),
    (pa.array([[1]]), "int"),
    (pa.array([{"a": 1}]), "string"),
    (pa.array([1], pa.duration("s")), "bigint"),
    (pa.array(["a\0b"]), "string"),
    (pa.array([b"\xff"]), "string"),
    (pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers()), "string"),
    (pa.array([2**62], pa.timestamp("s")), "timestamp"),
    (pa.array([2**62], pa.timestamp("us", "UTC")), "timestamp"),
    (pa.array([-(2**31)], pa.int32()).view(pa.date32()), "date"),
    (pa.array([MOMENT], pa.timestamp("us", "UTC")), "date"),
    (pa.array([20261117]), "date"),
    (pa.array([5]), "timestamp"),
]


@pytest.mark.parametrize(("values", "declared", "value"), CONVERTED, ids=str)
def test_converted(values: pa.Array, declared: str, value: Any) -> None:
    both = pa.concat_arrays([values, pa.nulls(1, values.type)])
    assert one(both, declared) == [(value, []), (None, ["x_missing"])]


@pytest.mark.parametrize(("values", "declared"), REFUSED, ids=[f"{kind}-{n}" for n, (_, kind) in enumerate(REFUSED)])
def test_refused(values: pa.Array, declared: str) -> None:
    both = pa.concat_arrays([values, pa.nulls(1, values.type)])
    assert one(both, declared, required=False) == [(None, ["x_invalid"]), (None, [])]


def test_missing_columns_and_defaults() -> None:
    fields = (Field("a", arrow_type("int")), Field("b", arrow_type("int"), default=3, required=False))
    events = parse_rows(pa.table({"c": [1, None], "d": ["x", None]}), stream(*fields), np.array([11, 12]))
    assert events.reasons.to_pylist() == [["a_missing"]] * 2
    assert events.batch.to_pylist() == [{"a": None, "b": 3, EXTRA: '{"c":1,"d":"x"}'}, {"a": None, "b": 3, EXTRA: None}]
    assert events.line.tolist() == [11, 12]


def test_strip_and_format_apply_to_text_columns() -> None:
    assert one(pa.array(["9.50$"]), "decimal(9,2)", strip="$") == [(Decimal("9.50"), [])]
    assert one(pa.array(["17.11.2026"]), "date", format="%d.%m.%Y") == [(date(2026, 11, 17), [])]


def test_rows_are_shown_as_json_whatever_they_hold() -> None:
    table = pa.table(
        {
            "x": [1, None],
            "f": [float("nan"), 0.5],
            "s": pa.array([b'\xff"', b"\n"], pa.binary()),
            "l": [[1, None], None],
            "t": pa.array([2**62, 0], pa.timestamp("s")),
            "d": pa.array([1, None], pa.duration("s")),
            "far": pa.array([[2**62], [0]], pa.list_(pa.timestamp("s"))),
        }
    )
    events = parse_rows(table, stream(Field("x", arrow_type("int"))))
    first, second = [json.loads(raw) for raw in events.raw.to_pylist()]
    assert (first["x"], first["f"], first["s"], first["l"]) == (1, None, '�"', "[1, null]")
    assert (second["x"], second["f"], second["s"], second["l"], second["d"]) == (None, 0.5, "\n", None, None)
    assert json.loads(events.batch.column(EXTRA)[1].as_py())["f"] == 0.5


def file(table: pa.Table, **options: Any) -> io.BytesIO:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out


def test_a_file_is_read_in_parts_and_numbered_through() -> None:
    orders = pa.table({"order_id": range(70_000)})
    parts = list(read_rows(file(orders), stream(ORDER[0])))
    assert [len(part) for part in parts] == [65_536, 4_464]
    assert parts[1].line[0] == 65_537
    assert parts[1].batch.column(0)[0].as_py() == 65_536


def test_what_is_no_parquet_is_one_refused_event() -> None:
    for content in (b"", b"PAR1", b"x" * 5_000):
        (events,) = read_rows(io.BytesIO(content), stream(*ORDER))
        assert events.reasons.to_pylist() == [["malformed_parquet"]]
        assert events.raw.to_pylist() == [content[:1_024]]


def test_a_damaged_row_group_keeps_the_rows_before_it() -> None:
    whole = file(
        pa.table({"order_id": range(200_000)}), row_group_size=100_000, compression="zstd", use_dictionary=False
    )
    content = bytearray(whole.getvalue())
    second = pq.ParquetFile(whole).metadata.row_group(1).column(0).data_page_offset
    content[second : second + 2_000] = b"\xff" * 2_000
    parts = list(read_rows(io.BytesIO(content), stream(ORDER[0])))
    assert sum(len(part) for part in parts[:-1]) >= 65_536
    assert parts[-1].reasons.to_pylist() == [["malformed_parquet"]]


def repeated(value: str, rows: int) -> pa.Table:
    """A text that is in the file once, and in every row."""
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value]))
    return pa.table({"order_id": range(rows), "note": texts})


NOTED = stream(ORDER[0], Field("note", arrow_type("string"), required=False))


@pytest.mark.parametrize("store_schema", [True, False])
def test_a_text_that_is_in_a_file_once_is_not_copied_into_all_rows_at_once(store_schema: bool) -> None:
    content = file(repeated("x" * 4_000, 65_536), store_schema=store_schema)
    assert len(content.getvalue()) < 1_000_000
    before, largest, rows = pa.total_allocated_bytes(), 0, 0
    for events in read_rows(content, NOTED):
        largest = max(largest, pa.total_allocated_bytes() - before)
        rows += len(events)
        assert events.reasons.flatten().to_pylist() == []
        assert events.batch.column("note")[0].as_py() == "x" * 4_000
    assert rows == 65_536
    assert largest < 8 * BYTES


def test_a_row_that_is_too_long_is_refused_like_a_line_and_never_copied() -> None:
    long = repeated("y" * 1_000_000, 20_000)
    content = file(pa.concat_tables([repeated("x", 3), long, repeated("z" * LONGEST_LINE, 1)]).unify_dictionaries())
    before, largest = pa.total_allocated_bytes(), 0
    found: dict[int, tuple[list[str], int]] = {}
    for events in read_rows(content, NOTED):
        largest = max(largest, pa.total_allocated_bytes() - before)
        lengths = [len(raw) for raw in events.raw.to_pylist()]
        found.update(zip(events.line.tolist(), zip(events.reasons.to_pylist(), lengths, strict=True), strict=True))
    assert [found[line][0] for line in (1, 3, 4, 20_003, 20_004)] == [[], [], *[["line_too_long"]] * 3]
    assert len(found) == 20_004
    assert found[4][1] == KEPT_OF_TOO_LONG
    assert largest < 8 * BYTES


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (pa.array(["a" * 50, None, "b"] * 30_000), {}),
        (pa.array(["a" * 50, None, "b"] * 30_000, pa.large_string()), {}),
        (pa.array(["a" * 50, None, "b"] * 30_000, pa.string_view()), {}),
        (pa.array(["a" * 50, None, "b"] * 30_000), {"column_encoding": "DELTA_BYTE_ARRAY", "use_dictionary": False}),
        (pa.array(["a" * 50, None, "b"] * 30_000), {"use_dictionary": False}),
        (pa.array(["a" * 50, None, "b"] * 30_000).dictionary_encode(), {"row_group_size": 1_000}),
    ],
    ids=["dictionary pages", "large", "views", "delta", "plain", "dictionaries"],
)
def test_texts_are_the_same_however_a_file_encodes_them(values: pa.Array, options: dict[str, Any]) -> None:
    table = pa.table({"order_id": range(len(values)), "note": values, "more": [[1]] * len(values)})
    if isinstance(options.get("column_encoding"), str):
        options = {**options, "column_encoding": {"note": options["column_encoding"]}}
    parts = list(read_rows(file(table, **options), NOTED))
    assert [one for part in parts for one in part.batch.column("note").to_pylist()] == values.to_pylist()
    assert np.concatenate([part.line for part in parts]).tolist() == list(range(1, len(values) + 1))
    assert parts[0].batch.column(EXTRA)[0].as_py() == '{"more":"[1]"}'


def test_nested_values_of_any_size_are_read_in_small_steps() -> None:
    nested = pa.array([["n" * 100_000], ["n"], None] * 100)
    lines = {
        line: reasons
        for events in read_rows(file(pa.table({"order_id": range(300), "more": nested})), stream(ORDER[0]))
        for line, reasons in zip(events.line.tolist(), events.reasons.to_pylist(), strict=True)
    }
    assert [lines[line] for line in range(1, 301)] == [["line_too_long"], [], []] * 100


def test_rows_that_are_set_aside_are_kept_whole_and_never_parsed() -> None:
    table = pa.table({"order_id": [1, 2, 3], "at": [date(2026, 1, 2)] * 3, "more": [[1], [], [3]]})
    found = list(read_rows(file(table), stream(ORDER[0]), lambda number: (number < 2, number >= 2), "bad"))
    assert [(part.line.tolist(), part.reasons.to_pylist()) for part in found] == [([2, 3], [["bad"]] * 2), ([1], [[]])]
    assert [json.loads(raw) for raw in found[0].raw.to_pylist()] == [
        {"order_id": "2", "at": "2026-01-02", "more": "[]"},
        {"order_id": "3", "at": "2026-01-02", "more": "[3]"},
    ]


@pytest.mark.parametrize(("kept", "aside", "reasons"), [(1, 0, ["malformed_parquet"]), (0, 1, ["bad"]), (0, 0, None)])
def test_a_damaged_file_is_refused_only_where_its_row_is_chosen(
    kept: int, aside: int, reasons: list[str] | None
) -> None:
    def choice(number: Numbers) -> tuple[Flags, Flags]:
        return number < number + kept, number < number + aside

    found = list(read_rows(io.BytesIO(b"PAR1"), stream(*ORDER), choice, "bad"))
    assert [part.reasons.to_pylist() for part in found] == ([] if reasons is None else [[reasons]])


def test_a_failing_disk_is_not_a_damaged_file() -> None:
    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EIO, "the disk fails")

    with pytest.raises(OSError, match="the disk fails"):
        list(read_rows(Failing(file(repeated("x", 3)).getvalue()), NOTED))
