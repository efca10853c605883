"""Two streams as Parquet files.

    fill-000 … fill-009    a tenth of the window each
    batch-000 …            what is timed

A batch covers as much event time as it is of the window, so a window always holds `stored` tuples of both streams
together. Keys and values are drawn so that a tuple meets about one of the other stream, whatever the window holds:
what is measured is the cost of a larger window, not of more pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Kind = Literal["equality", "band"]
KINDS: tuple[Kind, Kind] = ("equality", "band")
SIDES = ("r", "s")
START_US = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp()) * 1_000_000
WINDOW_S = 600
FILLS = 10
CONDITIONS: dict[Kind, str] = {"equality": "r.k = s.k", "band": "abs(r.v - s.v) <= 1"}
SCHEMA = pa.schema(
    {"id": pa.int64(), "k": pa.int64(), "v": pa.int64(), "note": pa.string(), "t": pa.timestamp("us", "UTC")}
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one contender works on: `stored` tuples in the window, batches of `batch`, of both streams together."""

    stored: int
    batch: int
    batches: int

    def name(self) -> str:
        return f"{self.stored}-{self.batch}-{self.batches}"

    def steps(self) -> Iterator[tuple[str, int, int, int]]:
        """Name, tuples of one stream, and the first and last moment of every step, in microseconds."""
        window, per_side, clock = WINDOW_S * 1_000_000, self.stored // 2, START_US
        for number in range(FILLS):
            yield f"fill-{number:03}", per_side // FILLS, clock, clock + window // FILLS
            clock += window // FILLS
        span = window * self.batch // self.stored
        for number in range(self.batches):
            yield f"batch-{number:03}", self.batch // 2, clock, clock + span
            clock += span


@dataclass(frozen=True, slots=True)
class Step:
    """Files of one micro-batch, by stream."""

    name: str
    files: dict[str, Path]
    end_us: int

    @property
    def timed(self) -> bool:
        return self.name.startswith("batch")


def make(plan: Plan, folder: Path) -> list[Step]:
    """The files of a plan, made once."""
    home = folder / plan.name()
    steps = []
    for number, (name, count, begin, end) in enumerate(plan.steps()):
        files = {side: home / side / f"{name}.parquet" for side in SIDES}
        for which, file in enumerate(files.values()):
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                draft = file.with_suffix(".new")
                pq.write_table(_tuples(plan, number, which, count, begin, end), draft)
                draft.rename(file)
        steps.append(Step(name, files, end))
    return steps


def _tuples(plan: Plan, number: int, which: int, count: int, begin: int, end: int) -> pa.Table:
    random = np.random.default_rng([plan.stored, number, which])
    keys = plan.stored // 2
    ids = np.arange(count, dtype=np.int64) + number * 10_000_000
    columns = {
        "id": pa.array(ids),
        "k": pa.array(random.integers(0, keys, count)),
        "v": pa.array(random.integers(0, 3 * keys, count)),  # one of three values is within 1
        "note": pa.array(np.char.add("tuple number ", ids.astype("U20"))),
        "t": pa.array(random.integers(begin, end, count)).cast(pa.timestamp("us", "UTC")),
    }
    return pa.table(columns, SCHEMA)
