"""Files of released lines, ours and those that only look like ours."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from etl.adapters.landing import format_of, is_release, release_name
from etl.contract.model import Field, Source, Stream
from etl.contract.words.types import arrow_type
from etl.pipeline.input import released

STREAM = Stream(Source(Path()), (Field("id", arrow_type("bigint")),), ("id",))
CSV = replace(STREAM, source=replace(STREAM.source, format="csv"))
NAME = release_name(1, "0" * 16, "csv").encode()


def line(raw: bytes, header: Any = None, origin: str = "1-1") -> bytes:
    return json.dumps({"from": origin, "header": header, "raw": base64.b64encode(raw).decode()}).encode() + b"\n"


def ids(stream: Stream, content: bytes) -> list[tuple[int, Any]]:
    """Line numbers and ids of the events of a file."""
    found = []
    for events, _ in released.read(content, stream):
        found += zip(events.line.tolist(), events.batch["id"].to_pylist(), strict=True)
    return sorted(found)


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_headers_of_lines_that_are_no_csv_are_ignored(format: Any) -> None:
    stream = replace(STREAM, source=replace(STREAM.source, format=format))
    content = b"".join(line(b'{"id": %d}' % number, f"header {number}") for number in range(1_000))
    assert len(list(released.blocks(content, format))) == 1
    assert ids(stream, content) == [(number + 1, number) for number in range(1_000)]


def test_lines_of_csv_come_back_under_their_own_headers_whatever_their_order() -> None:
    content = b"".join(line(b"%d,x" % number, ("id,a", "id,b")[number % 2]) for number in range(100))
    assert len(list(released.blocks(content, "csv"))) == 2
    assert ids(CSV, content) == [(number + 1, number) for number in range(100)]


def test_a_file_with_a_header_per_line_costs_no_more_than_the_headers_that_are_told_apart() -> None:
    content = b"".join(line(b"%d,x" % number, f"id,a{number}") for number in range(5_000))
    assert len(list(released.blocks(content, "csv"))) == released._HEADERS_MOST + 1
    found = ids(CSV, content)
    assert len(found) == 5_000, "no line is lost"
    assert found[:10] == [(number + 1, number) for number in range(10)]


@pytest.mark.parametrize("header", ["\ud800", 7, ["id"], {"id": 1}])
def test_a_header_that_is_no_text_makes_an_ordinary_line(header: Any) -> None:
    ((number, found),) = released.decode(line(b"1", header))
    assert (number, found.origin, found.header) == (1, None, None)


@pytest.mark.parametrize("name", [NAME, NAME + b"~1", NAME + b"~12"])
def test_names_of_files_of_released_lines_landed_and_archived(name: bytes) -> None:
    assert is_release(name)
    assert format_of(name, "csv") == "jsonl"


@pytest.mark.parametrize(
    "name", [NAME + b".csv", NAME + b"\n", NAME + b"~", b"x" + NAME, NAME.replace(b"0000", b"\xff")]
)
def test_names_that_only_resemble_them(name: bytes) -> None:
    assert not is_release(name)
    assert format_of(name, "csv") == "csv"
