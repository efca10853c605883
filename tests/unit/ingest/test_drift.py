"""Signs that the schema of events has changed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from etl.contract.model import Field, Source, Stream
from etl.ingest.drift import Observed, departed, observe
from etl.ingest.events import parse_events
from etl.ingest.lines import split

FIELDS = (Field("id", pa.int64()), Field("price", pa.float64()), Field("note", pa.string(), required=False))
STREAM = Stream(Source(Path("x")), FIELDS, ("id",))


def seen(*events: dict[str, Any] | bytes) -> Observed:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in events]
    return observe(parse_events(split(b"\n".join(lines), 1), STREAM), FIELDS)


def test_fields_that_nobody_declared_are_counted_by_name() -> None:
    found = seen(
        {"id": 1, "price": 2, "mood": 1}, {"id": 1, "price": 2}, {"id": 1, "price": 2, "mood": {"a": 1}, "x": []}
    )
    assert found.added == Counter({"mood": 2, "x": 1})


def test_counts_of_many_lines_are_projected_from_a_sample() -> None:
    found = seen(*[{"id": one, "price": 1, "mood": 1} for one in range(5000)])
    assert found.added == Counter({"mood": 5000})


def test_hostile_names_are_cut_escaped_and_few() -> None:
    found = seen(
        *[b'{"id": 1, "price": 1, "%d\\u0000\\ud800\\u202e%s": 1%s}' % (n, b"x" * 999, b"0" * 5000) for n in range(200)]
    )
    assert len(found.added) == 50
    assert all("\\x00\\ud800\\u202exxx" in name and len(name) < 130 for name in found.added)


def test_lines_that_cannot_be_taken_apart_say_nothing_about_fields() -> None:
    found = seen(b"{", b"\xff", {"id": 1})
    assert (found.lines, found.missing) == (1, Counter({"price": 1}))


@pytest.mark.parametrize(
    ("events", "lost"),
    [
        ([{"id": 1}] * 95 + [{"id": 1, "price": 1}] * 5, ["price is missing in 95 of 100 lines"]),
        ([{"id": 1}] * 94 + [{"id": 1, "price": 1}] * 6, []),
        ([{"id": 1}] * 99, []),
        ([{"id": "a", "price": 1}] * 100, ["id is not a int64 in 100 of 100 lines"]),
        ([{"id": 1, "price": 1}] * 100, []),
        ([b"{"] * 1000, []),
    ],
)
def test_a_field_is_lost_when_nearly_all_of_enough_lines_lack_it(events: list[Any], lost: list[str]) -> None:
    assert list(departed(seen(*events), FIELDS)) == lost


def test_blocks_add_up_and_travel_as_json() -> None:
    both = seen({"id": 1, "a": 1}) + seen({"price": 1, "a": 2, "b": 1})
    assert both == Observed(2, Counter({"a": 2, "b": 1}), Counter({"id": 1, "price": 1}), Counter())
    assert Observed.from_json(json.loads(json.dumps(both.as_json()))) == both
