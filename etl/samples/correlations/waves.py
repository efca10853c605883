"""Waves of files: the events that arrive in one time span, per stream, with repeated and dirty lines.

A repeated line is a second tuple, since streams have no key. Dirty lines are refused by the declared fields, each
variety for one reason; one of them is a clock that is years ahead, which must not move any watermark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from etl.samples import draws, lines
from etl.samples.correlations.config import ShopConfig
from etl.samples.correlations.history import Events, history
from etl.samples.dirt import Fields, rendered
from etl.samples.example import publish

_TIMES = {"orders_placed": "ordered_at", "payments": "paid_at", "shipments": "shipped_at"}


def _clock_ahead(row: Fields, stream: str) -> bytes:
    return rendered(row | {_TIMES[stream]: f'"2999{row[_TIMES[stream]][5:]}'})


def _no_time(row: Fields, stream: str) -> bytes:
    return rendered({name: token for name, token in row.items() if name != _TIMES[stream]})


def _truncated(row: Fields, _stream: str) -> bytes:
    return rendered(row)[:-9]


def _not_json(row: Fields, stream: str) -> bytes:
    return f"WARN {stream}: upstream timed out after {next(iter(row.values()))}".encode()


def _negative_id(row: Fields, _stream: str) -> bytes:
    first = next(iter(row))
    return rendered(row | {first: f"-{row[first]}"})


DIRT: dict[str, Callable[[Fields, str], bytes]] = {
    "clock ahead": _clock_ahead, "no time": _no_time, "truncated": _truncated, "not JSON": _not_json,
    "negative id": _negative_id,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Landed:
    """What one stream brought in one wave: lines, of them repeated, and of them dirty by variety."""

    file: Path
    lines: int
    repeated: int
    dirty: Mapping[str, int]

    @property
    def accepted(self) -> int:
        return self.lines - sum(self.dirty.values())


def waves(config: ShopConfig, start: datetime, landing: Path) -> Iterator[dict[str, Landed]]:
    """Lets a wave land each time one is asked for: a file per stream, in `landing`/<stream>."""
    begin = int(start.timestamp() * 1000)
    lasting = int(config.lasting.total_seconds() * 1000)
    streams = history(config, begin)
    for number in range(config.waves):
        span = (begin + number * lasting, begin + (number + 1) * lasting)
        yield {events.stream: _land(config, events, span, number, landing / events.stream) for events in streams}


def _land(config: ShopConfig, events: Events, span: tuple[int, int], wave: int, folder: Path) -> Landed:
    arrived = np.flatnonzero((events.arrives >= span[0]) & (events.arrives < span[1]))
    order = arrived[np.argsort(events.arrives[arrived], kind="stable")]
    chance = draws.uniform(config.seed, f"fate of {events.stream}", order)
    repeated = chance < config.share_repeated
    dirty = ~repeated & (chance < config.share_repeated + config.share_dirty)
    texts, found = _spoiled(config, events, order, dirty)
    texts = texts.take(pa.array(np.repeat(np.arange(len(order)), 1 + repeated)))
    name = f"{events.stream}-{config.seed}-{wave:04}.jsonl"
    path = publish(folder, name, bytes(lines.as_bytes(texts)))
    return Landed(path, len(texts), int(repeated.sum()), found)


def _spoiled(
    config: ShopConfig, events: Events, order: NDArray[np.int64], dirty: NDArray[np.bool_]
) -> tuple[pa.Array, Mapping[str, int]]:
    columns = {name: column.take(pa.array(order)) for name, column in events.fields.items()}
    texts = lines.joined(columns).cast(pa.binary())
    where = np.flatnonzero(dirty)
    if not len(where):
        return texts, {}
    choice = draws.below(len(DIRT), config.seed, f"dirt of {events.stream}", order[where]).tolist()
    rows = pa.table(columns).take(pa.array(where)).to_pylist()
    varieties = [list(DIRT)[one] for one in choice]
    spoiled = [DIRT[variety](row, events.stream) + b"\n" for variety, row in zip(varieties, rows, strict=True)]
    replaced = pc.replace_with_mask(texts, pa.array(dirty), pa.array(spoiled, pa.binary()))
    return replaced, dict(Counter(varieties))
