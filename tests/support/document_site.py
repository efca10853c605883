"""A site for tests of correlations of documents: one stream, and the nested loop that says what must be found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from etl.contract.words.times import duration
from etl.streams.microbatch import Executor
from etl.streams.steps import CorrelationSteps
from tests.support.correlate_histories import EPOCH
from tests.support.stream_site import StreamSite

Pair = tuple[int, int]
Placed = tuple[int, int | None, dict[str, Any]]
"""A document with its slot, and the first slot that was open when it came."""
STREAM = """
[stream]
source = { landing = "landing/logs" }
[documents]
event_time = "time"
unit = "ms"
ignore = ["n"]
"""


def seconds(after: float) -> int:
    """Milliseconds since 1970, so many seconds after the beginning of a test."""
    return int(EPOCH.timestamp() * 1000 + after * 1000)


@dataclass(frozen=True)
class DocumentSite:
    """Documents carry `n.id`, which does not join, and by which pairs are told."""

    under_it: StreamSite

    @classmethod
    def under(cls, home: Path, dsn: str, executor: Executor) -> DocumentSite:
        site = StreamSite.under(home, dsn, executor)
        for file in site.settings.streams.glob("*.toml"):
            file.unlink()
        (site.settings.streams / "logs.toml").write_text(STREAM)
        return cls(site)

    @property
    def steps(self) -> CorrelationSteps:
        return self.under_it.steps

    def declare(self, name: str, sql: str | None = None, **options: Any) -> None:
        tables = [f"[{key}]\n" + _lines(value) for key, value in options.items() if isinstance(value, dict)]
        plain = _lines({key: value for key, value in options.items() if not isinstance(value, dict)})
        said = "" if sql is None else f"sql = {json.dumps(sql)}\n"
        (self.under_it.settings.correlations / f"{name}.toml").write_text(said + plain + "\n".join(tables))

    def land(self, name: str, rows: Iterable[dict[str, Any] | bytes]) -> None:
        self.under_it.land("logs", name, rows)

    def run(self) -> dict[str, Any]:
        return self.under_it.run()

    def ending(self, checkpoint: str) -> DocumentSite:
        return replace(self, under_it=self.under_it.ending(checkpoint))

    def restarted(self) -> None:
        self.under_it.restarted()

    def table(self, correlation: str, table: str = "results") -> pa.Table:
        return self.under_it.table(correlation, table)

    def quarantine(self, stream: str) -> pa.Table:
        return self.under_it.quarantine(stream)

    def pairs(self, correlation: str) -> Counter[Pair]:
        """Results by the numbers of their documents, which are read from the stream log."""
        numbers = self._numbers()
        found = self.table(correlation, "results").select(["left_id", "right_id"]).to_pylist()
        return Counter(tuple(sorted((numbers[row["left_id"]], numbers[row["right_id"]]))) for row in found)

    def _numbers(self) -> dict[int, int]:
        folder = self.under_it.settings.warehouse / "correlations" / "_log" / "segments" / "logs"
        numbers = {}
        for path in folder.glob("*.arrow"):
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
                lines = reader.read_all().column("document").to_pylist()
            first = int(path.stem) << 32
            numbers.update({first + row: json.loads(line).get("n", {}).get("id", -1) for row, line in enumerate(lines)})
        return numbers

    def truth(
        self, batches: Sequence[Sequence[dict[str, Any]]], window: dict[str, Any], lateness_s: int = 0
    ) -> Counter[Pair]:
        """All pairs that share a window, share a value and conflict in none; late documents left out."""
        size = _length(window["window"])
        slide = _length(window.get("slide", window["window"]))
        counted = isinstance(window["window"], int)
        kept, largest, number = list[Placed](), None, 0
        for batch in batches:
            first = None if largest is None else (largest - lateness_s * 1_000_000) // slide - size // slide + 1
            first = None if counted else first
            for document in batch:
                place = number if counted else document["time"] * 1000
                number += 1
                if first is None or place // slide >= first:
                    kept.append((place // slide, first, document))
            largest = max([*([] if largest is None else [largest]), *(one["time"] * 1000 for one in batch)])
        return _nested_loop(kept, size // slide)


def _nested_loop(kept: list[Placed], slots: int) -> Counter[Pair]:
    """A pair counts if a window with both, the one that begins with the earlier, was open when the second came."""
    found: Counter[Pair] = Counter()
    flat = [(slot, first, one["n"]["id"], _flat(one)) for slot, first, one in kept]
    for position, (slot, first, number, one) in enumerate(flat):
        for other_slot, _, other_number, other in flat[:position]:
            common = one.keys() & other.keys()
            together = abs(slot - other_slot) < slots and (first is None or min(slot, other_slot) >= first)
            if together and common and all(one[name] == other[name] for name in common):
                found[min(number, other_number), max(number, other_number)] += 1
    return found


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    flat = {name: value for name, value in document.items() if name not in ("time", "n", "tags", "i")}
    return flat | {f"tags[{place}]": tag for place, tag in enumerate(document.get("tags", ()))}


def _length(given: str | int) -> int:
    if isinstance(given, int):
        return given
    length = duration(given)
    assert length is not None, f"{given} is a length of time"
    return int(length.total_seconds() * 1_000_000)


def _lines(options: dict[str, Any]) -> str:
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())
