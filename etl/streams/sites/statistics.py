"""Statistics of a correlation's streams: gathered at the segments' sites, stored as small sketches, for planning.

A stream's sketches have a few hundred kilobytes at most: exact counts of the most frequent values, one sum for all
others, with exponential decay (`etl.correlate.multiway.statistics`). They are arrays in one NumPy archive.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from etl.correlate.multiway.statistics import DistinctSketch, StreamStatistics, ValueSketch

_ARRAYS = ("codes", "counts", "current", "previous")


def to_archive(known: StreamStatistics) -> bytes:
    """The statistics of one stream as bytes."""
    plain: dict[str, Any] = {"half_life_s": known.half_life_s, "tuples": known.tuples, "seconds": known.seconds}
    arrays: dict[str, Any] = {}
    sketches = []
    for attribute, folds in known.sketches.items():
        for fold, one in enumerate(folds):
            kept = (one.codes, one.counts, one.distinct.current, one.distinct.previous)
            arrays |= {f"{attribute}.{fold}.{name}": value for name, value in zip(_ARRAYS, kept, strict=True)}
            sketches.append([attribute, fold, one.capacity, one.rest, one.distinct.age_s])
    plain |= {"column_bytes": known.column_bytes, "sketches": sketches}
    sink = io.BytesIO()
    np.savez_compressed(sink, plain=np.frombuffer(json.dumps(plain).encode(), np.uint8), **arrays)
    return sink.getvalue()


def from_archive(content: bytes) -> StreamStatistics:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        plain = json.loads(archive["plain"].tobytes())
        folds: dict[int, list[ValueSketch]] = {}
        for attribute, fold, capacity, rest, age_s in plain["sketches"]:
            codes, counts, current, previous = (archive[f"{attribute}.{fold}.{name}"] for name in _ARRAYS)
            sketch = ValueSketch(capacity, codes, counts, rest, DistinctSketch(current, previous, age_s))
            folds.setdefault(attribute, []).append(sketch)
    sketches = {attribute: (first, second) for attribute, (first, second) in folds.items()}
    known = (plain["half_life_s"], plain["tuples"], plain["seconds"])
    return StreamStatistics(*known, plain["column_bytes"], sketches)


def all_of(found: dict[int, tuple[int, bytes]], streams: int, half_life_s: float) -> list[StreamStatistics]:
    """Statistics by stream; empty where there are none yet."""
    return [
        from_archive(found[stream][1]) if stream in found else StreamStatistics(half_life_s)
        for stream in range(streams)
    ]


def known_batches(found: dict[int, tuple[int, bytes]], streams: Sequence[int]) -> int:
    """The first batch that is not in the statistics of all of these streams."""
    return min((found[stream][0] + 1 if stream in found else 0 for stream in streams), default=0)
