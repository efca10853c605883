"""Statistics of streams: rates, tuple sizes, and histograms of join values, in sketches with exponential decay.

    segment ─► count, bytes, seconds        ─► rate, size
            └► codes of a join attribute    ─► ValueSketch: the most frequent values exactly, one sum for the others

Counts decay with a half-life of event time, and so does the time they cover: a steady stream keeps its rate. A planner
reads only the sketches of the sites' streams; tuples are not moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from etl.correlate.multiway.codes import I64, mix
from etl.correlate.multiway.query import JoinQuery, TimeWindow, bits
from etl.correlate.multiway.rates import F64, Histogram, HistogramSelectivity, RateModel, SizeOf, StreamRate

CAPACITY = 4096
_KMV = 1024
_TOP = float(2**64)
_RARE, _ENOUGH = 5, 10  # counts below _RARE are smoothed, if at least _ENOUGH values have them


@dataclass
class DistinctSketch:
    """The smallest hashes seen: their density tells how many distinct values there are (KMV).

    Two generations are kept. When the younger is a half-life old it becomes the older one, so values that no longer
    occur are dropped after two half-lives.
    """

    current: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    previous: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    age_s: float = 0.0

    def add(self, codes: I64, seconds: float, half_life_s: float) -> None:
        self.age_s += seconds
        if self.age_s > half_life_s:
            self.previous, self.current, self.age_s = self.current, np.empty(0, np.int64), 0.0
        self.current = self._smallest(self.current, mix(codes).view(np.int64))

    def merged(self, other: DistinctSketch) -> DistinctSketch:
        current, previous = self._smallest(self.current, other.current), self._smallest(self.previous, other.previous)
        return DistinctSketch(current, previous, self.age_s)

    @staticmethod
    def _smallest(left: I64, right: I64) -> I64:
        return np.unique(np.concatenate([left, right]).view(np.uint64))[:_KMV].view(np.int64)

    def estimate(self) -> float:
        smallest = self._smallest(self.current, self.previous).view(np.uint64)
        if len(smallest) < _KMV:
            return float(len(smallest))
        return (_KMV - 1) / (float(smallest[-1]) / _TOP)


@dataclass
class ValueSketch:
    """Counts of values: the `capacity` most frequent ones individually, the others as a sum.

    A value that enters late is counted from then on, so a count is never too high; what was counted before that is
    among the others.
    """

    capacity: int = CAPACITY
    codes: I64 = field(default_factory=lambda: np.empty(0, np.int64))
    counts: F64 = field(default_factory=lambda: np.empty(0))
    rest: float = 0.0
    distinct: DistinctSketch = field(default_factory=DistinctSketch)

    def add(self, codes: I64, seconds: float, half_life_s: float) -> None:
        fade = 0.5 ** (seconds / half_life_s)
        values, counts = np.unique(codes, return_counts=True)
        merged, where = np.unique(np.concatenate([self.codes, values]), return_inverse=True)
        totals = np.bincount(where, weights=np.concatenate([self.counts * fade, counts]), minlength=len(merged))
        kept = np.sort(np.argsort(-totals, kind="stable")[: self.capacity])
        self.rest = self.rest * fade + float(totals.sum() - totals[kept].sum())
        self.codes, self.counts = merged[kept], np.asarray(totals[kept], np.float64)
        self.distinct.add(values, seconds, half_life_s)

    def merged(self, other: ValueSketch) -> ValueSketch:
        """The sum of both sketches."""
        codes, where = np.unique(np.concatenate([self.codes, other.codes]), return_inverse=True)
        counts = np.bincount(where, weights=np.concatenate([self.counts, other.counts]), minlength=len(codes))
        distinct = self.distinct.merged(other.distinct)
        return ValueSketch(self.capacity, codes, np.asarray(counts, np.float64), self.rest + other.rest, distinct)

    @property
    def total(self) -> float:
        return float(self.counts.sum()) + self.rest

    @property
    def rest_distinct(self) -> float:
        return max(1.0, self.distinct.estimate() - len(self.codes))


@dataclass
class StreamStatistics:
    """A stream after its filters: tuples, bytes per column and seconds, all decayed, and sketches per join attribute.

    Every other tuple goes to the second sketch of its attribute: a plan per partition that was computed from the first
    is evaluated by the second, to avoid overfitting (ADR 47).
    """

    half_life_s: float
    tuples: float = 0.0
    seconds: float = 0.0
    column_bytes: dict[str, float] = field(default_factory=dict)
    sketches: dict[int, tuple[ValueSketch, ValueSketch]] = field(default_factory=dict)

    def add(self, codes: dict[int, I64], column_bytes: dict[str, int], tuples: int, seconds: float) -> None:
        """Add a segment: the codes of each attribute, the bytes of each column, and the event time it covers."""
        fade = 0.5 ** (seconds / self.half_life_s)
        self.tuples = self.tuples * fade + tuples
        self.seconds = self.seconds * fade + seconds
        for column, size in column_bytes.items():
            self.column_bytes[column] = self.column_bytes.get(column, 0.0) * fade + size
        for attribute, values in codes.items():
            for fold, sketch in enumerate(self.sketches.setdefault(attribute, (ValueSketch(), ValueSketch()))):
                sketch.add(values[fold::2], seconds, self.half_life_s)

    @property
    def rate_per_s(self) -> float:
        return self.tuples / self.seconds if self.seconds else 0.0

    def width_bytes(self, column: str) -> float:
        """The average size of a value."""
        return self.column_bytes.get(column, 0.0) / self.tuples if self.tuples else 0.0


def rate_model(query: JoinQuery, statistics: Sequence[StreamStatistics], size_of: SizeOf) -> RateModel:
    """The planner's rate model from measured statistics."""
    streams = []
    for stream, known in zip(query.streams, statistics, strict=True):
        window = stream.window
        if isinstance(window, TimeWindow):
            seconds = window.microseconds / 1e6
            streams.append(StreamRate.over_time(stream.name, stream.site, known.rate_per_s, seconds))
        else:
            streams.append(StreamRate.over_tuples(stream.name, stream.site, known.rate_per_s, window.tuples))
    first, second = (_selectivity(query, [_fold(one, fold) for one in statistics]) for fold in range(2))
    whole = _selectivity(query, [_pooled(one) for one in statistics])
    folds = (RateModel(streams, first, size_of), RateModel(streams, second, size_of))
    return RateModel(streams, whole, size_of, folds)


def _fold(known: StreamStatistics, fold: int) -> dict[int, ValueSketch]:
    return {attribute: sketches[fold] for attribute, sketches in known.sketches.items()}


def _pooled(known: StreamStatistics) -> dict[int, ValueSketch]:
    return {attribute: left.merged(right) for attribute, (left, right) in known.sketches.items()}


def _selectivity(query: JoinQuery, sketches: list[dict[int, ValueSketch]]) -> HistogramSelectivity:
    histograms = tuple(
        histogram(one.members, {i: sketches[i].get(n, ValueSketch()) for i in one.columns}, len(sketches))
        for n, one in enumerate(query.attributes)
    )
    return HistogramSelectivity(len(sketches), histograms)


def histogram(members: int, sketches: dict[int, ValueSketch], count: int) -> Histogram:
    """Combine the sketches of all streams over the values that any of them counts individually.

    A value that this stream does not count individually gets the average frequency of its other values.
    """
    codes = np.unique(np.concatenate([one.codes for one in sketches.values()]))
    share, rest, distinct = np.zeros((count, len(codes))), np.zeros(count), np.ones(count)
    for stream in bits(members):
        sketch = sketches[stream]
        if not sketch.total:
            continue
        at = np.searchsorted(codes, sketch.codes)
        average = sketch.rest / sketch.rest_distinct
        foreign = np.ones(len(codes), np.bool_)
        foreign[at] = False
        # At most all of the other values are counted individually by other streams.
        foreign_each = min(average, sketch.rest / max(int(foreign.sum()), 1))
        share[stream, foreign] = foreign_each
        share[stream, at] = sketch.counts
        share[stream] = good_turing(share[stream])
        rest[stream] = max(sketch.rest - foreign_each * int(foreign.sum()), 0.0)
        distinct[stream] = max(sketch.rest_distinct - int(foreign.sum()), 1.0)
        share[stream] /= sketch.total
        rest[stream] /= sketch.total
    return Histogram(members, codes, share, rest, distinct)


def good_turing(counts: F64) -> F64:
    """Good-Turing smoothing of rare values' counts: (c + 1) · N(c+1) / N(c), with an unchanged total.

    A value that occurs once in the sample is on average rarer than that, and one that does not occur is not absent.
    Without smoothing, a planner would choose plans for single values by chance.
    """
    times = np.rint(counts).astype(np.int64)
    frequency = np.bincount(np.minimum(times, _RARE + 1), minlength=_RARE + 2)
    smoothed, rare = counts.copy(), np.zeros(len(counts), np.bool_)
    for count in range(_RARE):
        if min(frequency[count], frequency[count + 1]) < _ENOUGH:
            break
        smoothed[times == count] = (count + 1) * frequency[count + 1] / frequency[count]
        rare |= times == count
    if rare.any():
        smoothed[rare] *= counts[rare].sum() / smoothed[rare].sum()
    return smoothed
