"""Histories of streams in batches, conditions with their meaning in plain Python, and the nested loop."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from etl.correlate.biclique.pipeline import Arrivals
from etl.correlate.model import places, references
from etl.correlate.query.compile import StreamType
from etl.correlate.rows import MemoryRows

SECOND = 1_000_000
EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    {"id": pa.int64(), "k": pa.int64(), "s": pa.string(), "x": pa.int32(), "d": pa.decimal128(12, 2), "f": pa.float64(),
     "t": pa.timestamp("us", "UTC")}
)  # fmt: skip
STREAMS = {"l": StreamType(SCHEMA, "t"), "r": StreamType(SCHEMA, "t"), "u": StreamType(SCHEMA, "t")}
Row = dict[str, Any]
Predicate = Callable[[Row, Row], bool]


def at(seconds: float) -> dt.datetime:
    """So many seconds into the history."""
    return EPOCH + dt.timedelta(seconds=seconds)


def known(*values: object) -> bool:
    return all(value is not None for value in values)


CONDITIONS: dict[str, tuple[str, Predicate]] = {
    "equality": ("l.k = r.k", lambda a, b: known(a["k"], b["k"]) and a["k"] == b["k"]),
    "two keys": (
        "l.k = r.k and r.x = l.x",
        lambda a, b: known(a["k"], b["k"], a["x"], b["x"]) and (a["k"], a["x"]) == (b["k"], b["x"]),
    ),
    "text": ("lower(l.s) = r.s", lambda a, b: known(a["s"], b["s"]) and a["s"].lower() == b["s"]),
    "text and number": (
        "l.s = r.s and l.k = r.k",
        lambda a, b: known(a["s"], b["s"], a["k"], b["k"]) and (a["s"], a["k"]) == (b["s"], b["k"]),
    ),
    "decimal key": ("l.d = r.x", lambda a, b: known(a["d"], b["x"]) and a["d"] == b["x"]),
    "band": ("abs(l.x - r.x) <= 2", lambda a, b: known(a["x"], b["x"]) and abs(a["x"] - b["x"]) <= 2),
    "one-sided": ("l.x + 1 < r.k", lambda a, b: known(a["x"], b["k"]) and a["x"] + 1 < b["k"]),
    "relative band": (
        "l.d between r.d * 0.9 and r.d * 1.1",
        lambda a, b: known(a["d"], b["d"]) and b["d"] * Decimal("0.9") <= a["d"] <= b["d"] * Decimal("1.1"),
    ),
    "decimal band": (
        "l.d - r.d < 0.505 and r.d - l.d <= 1",
        lambda a, b: known(a["d"], b["d"]) and a["d"] - b["d"] < Decimal("0.505") and b["d"] - a["d"] <= 1,
    ),
    "float band": ("abs(l.f - r.f) <= 0.1", lambda a, b: known(a["f"], b["f"]) and abs(a["f"] - b["f"]) <= 0.1),
    "negative factor": ("l.x <= 3 - r.x", lambda a, b: known(a["x"], b["x"]) and a["x"] <= 3 - b["x"]),
    "equality and band": (
        "l.k = r.k and l.x between r.x - 1 and r.x + 3",
        lambda a, b: known(a["k"], b["k"], a["x"], b["x"]) and a["k"] == b["k"] and -1 <= a["x"] - b["x"] <= 3,
    ),
    "equality and residual": (
        "l.k = r.k and (l.x > r.x or l.s is null)",
        lambda a, b: (
            known(a["k"], b["k"])
            and a["k"] == b["k"]
            and ((known(a["x"], b["x"]) and a["x"] > b["x"]) or a["s"] is None)
        ),
    ),
    "theta": ("l.k * r.x > 3", lambda a, b: known(a["k"], b["x"]) and a["k"] * b["x"] > 3),
    "product": ("true", lambda a, b: True),
}
WINDOWS: dict[str, tuple[int | None, str, Callable[[int], bool]]] = {
    "full history": (None, "", lambda delta: True),
    "sliding": (4 * SECOND, "", lambda delta: abs(delta) <= 4 * SECOND),
    "interval": (
        None,
        " and r.t between l.t and l.t + interval 5 seconds",
        lambda delta: 0 <= delta <= 5 * SECOND,
    ),
    "open interval": (
        None,
        " and r.t > l.t - interval 2 seconds and r.t - l.t < interval 3 seconds",
        lambda delta: -2 * SECOND < delta < 3 * SECOND,
    ),
    "half open": (None, " and r.t >= l.t", lambda delta: delta >= 0),
    "both": (
        4 * SECOND,
        " and l.t <= r.t",
        lambda delta: 0 <= delta <= 4 * SECOND,
    ),
}


def micros(row: Row) -> int:
    return int((row["t"] - EPOCH) / dt.timedelta(microseconds=1))


@st.composite
def rows(draw: st.DrawFn, around: int) -> Row:
    """A row whose event time is near `around` seconds; few values, so that they meet, NULL among them."""
    late = draw(st.sampled_from([0, 0, 0, 1, 3, 9]))
    half = draw(st.integers(0, 3))
    number = st.one_of(st.none(), st.integers(-4, 4))
    tenths = draw(number)
    return {
        "id": 0,
        "k": draw(number),
        "s": draw(st.sampled_from([None, "a", "b", "B", ""])),
        "x": draw(number),
        "d": None if tenths is None else Decimal(tenths) / 10 * draw(st.sampled_from([1, 10])),
        "f": draw(st.sampled_from([None, 0.0, -0.0, 0.1, 0.2, 0.30000000000000004, -1.5, float("nan")])),
        "t": EPOCH + dt.timedelta(seconds=max(0, around - late), microseconds=half * SECOND // 2),
    }


@dataclass
class History:
    """Batches of rows per stream, with the dispatcher that sends each row."""

    batches: list[dict[str, list[tuple[int, Row]]]]


@st.composite
def histories(draw: st.DrawFn, streams: tuple[str, ...] = ("l", "r"), max_rows: int = 9) -> History:
    batches = []
    for number in range(draw(st.integers(1, 5))):
        batch = {}
        for stream in streams:
            many = draw(st.lists(st.tuples(st.integers(0, 2), rows(number * 3)), max_size=max_rows))
            if many and draw(st.booleans()):
                many.append(many[0])  # a repeated tuple is a tuple of its own
            batch[stream] = many
        batches.append(batch)
    number = 0
    for batch in batches:
        for many in batch.values():
            for position, (dispatcher, row) in enumerate(many):
                number += 1
                many[position] = (dispatcher, {**row, "id": number})
    return History(batches)


class Log:
    """A stream log in memory: turns batches of rows into arrivals."""

    def __init__(self, streams: tuple[str, ...] = ("l", "r")) -> None:
        self.rows = {stream: MemoryRows(SCHEMA) for stream in streams}
        self._segment = 0
        self._clocks: Counter[int] = Counter()

    def append(self, batch: dict[str, list[tuple[int, Row]]]) -> dict[str, Arrivals]:
        """A batch of all streams; each dispatcher takes from the streams in turn."""
        sent = sorted((position, stream) for stream, many in batch.items() for position in range(len(many)))
        clocks: dict[tuple[int, str], int] = {}
        for position, stream in sent:
            dispatcher = batch[stream][position][0]
            clocks[position, stream] = int(places(dispatcher, 1, self._clocks[dispatcher])[0])
            self._clocks[dispatcher] += 1
        arrivals = {}
        for stream, many in batch.items():
            self._segment += 1
            record = pa.RecordBatch.from_pylist([row for _, row in many], SCHEMA)
            self.rows[stream].append(self._segment, record)
            order = np.array([clocks[position, stream] for position in range(len(many))], np.int64)
            arrivals[stream] = Arrivals(record, references(self._segment, np.arange(len(many))), order)
        return arrivals


def on_time(history: History, lateness: int) -> list[dict[str, list[Row]]]:
    """Per batch and stream the rows that are not late."""
    largest: dict[str, int] = {}
    kept = []
    for batch in history.batches:
        kept.append(
            {
                stream: [row for _, row in many if micros(row) >= largest.get(stream, -(2**62)) - lateness]
                for stream, many in batch.items()
            }
        )
        for stream, many in batch.items():
            largest[stream] = max([largest.get(stream, -(2**62)), *(micros(row) for _, row in many)])
    return kept


def nested_loop(
    left: list[Row], right: list[Row], predicate: Predicate, window: Callable[[int], bool]
) -> Counter[tuple[int, int]]:
    return Counter((a["id"], b["id"]) for a in left for b in right if window(micros(b) - micros(a)) and predicate(a, b))
