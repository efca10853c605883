"""Lines: found, numbered, bounded."""

from __future__ import annotations

import pyarrow as pa
import pytest

from etl.ingest.lines import KEPT_OF_TOO_LONG, LONGEST_LINE, LineReader, Lines, split


def told(lines: Lines) -> list[tuple[int, bytes, bool]]:
    return list(zip(lines.number.tolist(), lines.raw.to_pylist(), lines.too_long.tolist(), strict=True))


def test_blank_lines_are_no_events_but_have_numbers() -> None:
    assert told(split(b"\n a \r\n \t\r\n\x0b\x0c\nb", 10)) == [(11, b" a ", False), (14, b"b", False)]


@pytest.mark.parametrize("data", [b"", b"\n", b" \n\r\n", b"\r"])
def test_nothing_is_no_lines(data: bytes) -> None:
    assert told(split(data, 1)) == []


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_buffer_will_do(kind: type) -> None:
    assert told(split(kind(b"a\nb\n"), 1)) == [(1, b"a", False), (2, b"b", False)]


def test_a_line_is_too_long_from_one_byte_beyond_the_limit() -> None:
    fits, beyond = b"x" * LONGEST_LINE, b"y" * (LONGEST_LINE + 1)
    found = told(split(fits + b"\r\n" + beyond + b"\n", 1))
    assert found == [(1, fits, False), (2, beyond[:KEPT_OF_TOO_LONG], True)]


def test_a_line_of_too_much_white_space_is_too_long_not_blank() -> None:
    assert told(split(b" " * (LONGEST_LINE + 1), 1)) == [(1, b" " * KEPT_OF_TOO_LONG, True)]


def test_a_reader_holds_no_more_than_a_block_and_a_line() -> None:
    reader = LineReader()
    assert told(reader.feed(b"a\nb")) == [(1, b"a", False)]
    for _ in range(50):
        assert told(reader.feed(b"z" * 100_000)) == []
        assert len(reader._tail) <= LONGEST_LINE + 1
    assert told(reader.feed(b"z\nc")) == [(2, (b"b" + b"z" * 2_000)[:KEPT_OF_TOO_LONG], True)]
    assert told(reader.finish()) == [(3, b"c", False)]
    assert told(reader.finish()) == []
