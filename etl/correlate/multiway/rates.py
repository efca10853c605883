"""The rate model: equations 1 to 3 of the paper, for any set of streams.

    λ_ij = f (λ_i W_j + λ_j W_i)        W_ij = f W_i W_j

applied again and again gives, for a set S of streams whose predicates all hold with probability F(S),

    W_S = F(S) Π W_i                    λ_S = W_S Σ λ_i / W_i

which does not depend on the plan. λ_i / W_i is the *turnover* of a window: 1/T for a time window, λ/K for
a tuple window. F(S) comes from histograms (`HistogramSelectivity`) or from selectivities per join (`EdgeSelectivity`).

A `RateModel` can be partitioned: each partition of an attribute's values has its own F(S), the rest is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from etl.correlate.multiway.query import bits

F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
_CHUNK_BYTES = 1 << 25


@dataclass(frozen=True, slots=True)
class StreamRate:
    """A stream in the model: after its filters, with `size_bytes` per shipped tuple."""

    name: str
    site: str
    rate_per_s: float
    window_tuples: float
    turnover_per_s: float
    size_bytes: float = 1.0

    @classmethod
    def over_time(cls, name: str, site: str, rate_per_s: float, seconds: float, size_bytes: float = 1.0) -> StreamRate:
        return cls(name, site, rate_per_s, rate_per_s * seconds, 1.0 / seconds, size_bytes)

    @classmethod
    def over_tuples(cls, name: str, site: str, rate_per_s: float, tuples: float, size_bytes: float = 1.0) -> StreamRate:
        return cls(name, site, rate_per_s, tuples, rate_per_s / tuples, size_bytes)


@dataclass(frozen=True)
class EdgeSelectivity:
    """A selectivity per join of two streams, all independent (example 2)."""

    count: int
    edges: dict[tuple[int, int], float] = field(hash=False)

    def of(self, streams: int) -> float:
        inside = [f for (i, j), f in self.edges.items() if streams >> i & 1 and streams >> j & 1]
        return float(np.prod(inside))

    def of_all(self) -> F64:
        return np.array([self.of(streams) for streams in range(1 << self.count)])

    def neighbours(self) -> tuple[int, ...]:
        return tuple(
            sum(1 << (j if i == one else i) for i, j in self.edges if one in (i, j)) for one in range(self.count)
        )


@dataclass(frozen=True)
class Histogram:
    """The distribution of every stream's tuples over the values of one attribute.

    `share[i, v]` is the part of stream i with value `codes[v]`; all other values together have `rest[i]`, spread
    evenly over `rest_distinct[i]` values. Rows of streams without the attribute are not read.
    """

    members: int
    codes: I64
    share: F64
    rest: F64
    rest_distinct: F64

    @classmethod
    def exact(cls, share: F64, codes: I64 | None = None, members: int | None = None) -> Histogram:
        """A histogram with all values."""
        count, values = share.shape
        everything = (1 << count) - 1 if members is None else members
        named = np.arange(values, dtype=np.int64) if codes is None else codes
        return cls(everything, named, share, np.zeros(count), np.ones(count))

    def products(self, streams: int) -> F64:
        """The probability that all members in `streams` have a value, by value, and last for all other values."""
        members = list(bits(streams & self.members))
        out = np.empty(len(self.codes) + 1)
        out[:-1] = self.share[members[0]]
        for member in members[1:]:
            out[:-1] *= self.share[member]
        distinct = self.rest_distinct[members]
        # Values outside the histogram: the stream with the fewest of them has no value the others lack.
        out[-1] = distinct.min() * np.prod(self.rest[members] / distinct)
        return out

    def of(self, streams: int) -> float:
        inside = streams & self.members
        return 1.0 if inside & (inside - 1) == 0 else float(self.products(inside).sum())

    def of_all(self, count: int) -> F64:
        """`of` for every set of `count` streams; the products of a set are those of a smaller one times one row."""
        members = list(bits(self.members))
        sums = np.zeros(1 << len(members))
        step = max(1, _CHUNK_BYTES // (8 << len(members)))
        for first in range(0, len(self.codes), step):
            rows = self.share[members, first : first + step]
            block = np.ones((1, rows.shape[1]))
            for row in rows:
                block = np.concatenate([block, block * row])
            sums += block.sum(axis=1)
        for inside in range(1, len(sums)):
            chosen = [members[bit] for bit in bits(inside)]
            distinct = self.rest_distinct[chosen]
            sums[inside] += distinct.min() * np.prod(self.rest[chosen] / distinct)
        single = 1 << np.arange(len(members))
        sums[single], sums[0] = 1.0, 1.0
        where = np.zeros(1 << count, np.int64)
        for bit, member in enumerate(members):
            where |= (np.arange(1 << count) >> member & 1) << bit
        return np.asarray(sums[where])


@dataclass(frozen=True)
class HistogramSelectivity:
    """A histogram per attribute; attributes are assumed to be independent."""

    count: int
    histograms: tuple[Histogram, ...]

    def of(self, streams: int) -> float:
        return float(np.prod([one.of(streams) for one in self.histograms]))

    def of_all(self) -> F64:
        return np.asarray(np.prod([one.of_all(self.count) for one in self.histograms], axis=0))

    def without(self, attribute: int, streams: int) -> float:
        """The selectivity of all other attributes."""
        others = (one for n, one in enumerate(self.histograms) if n != attribute)
        return float(np.prod([one.of(streams) for one in others]))

    def neighbours(self) -> tuple[int, ...]:
        return tuple(
            _union(one.members & ~(1 << i) for one in self.histograms if one.members >> i & 1)
            for i in range(self.count)
        )


def _union(masks: Iterable[int]) -> int:
    joined = 0
    for mask in masks:
        joined |= mask
    return joined


SizeOf = Callable[[int], float]


class Costs(Protocol):
    """The planner's view of the model: which streams can be joined, and the output rate of joining a set of them."""

    @property
    def streams(self) -> tuple[StreamRate, ...]: ...

    @property
    def neighbours(self) -> tuple[int, ...]: ...

    def bytes_per_s(self, streams: int) -> float: ...


class RateModel:
    """Rates, windows and bytes of joins. `size_of` gives the bytes of a tuple; without it sizes add up.

    `folds` are models of two halves of a sample, if the rates come from one: partitions are planned by the first half
    and judged by the second.
    """

    def __init__(
        self,
        streams: Sequence[StreamRate],
        selectivity: EdgeSelectivity | HistogramSelectivity,
        size_of: SizeOf | None = None,
        folds: tuple[RateModel, RateModel] | None = None,
    ) -> None:
        self.streams = tuple(streams)
        self.folds = folds
        self.selectivity = selectivity
        self.neighbours = selectivity.neighbours()
        self._size_of = size_of
        self._bytes: dict[int, float] = {}

    @property
    def everything(self) -> int:
        return (1 << len(self.streams)) - 1

    @property
    def judge(self) -> RateModel:
        """The model for evaluating plans per partition: from an independent sample, if there is one."""
        return self if self.folds is None else self.folds[1]

    def window(self, streams: int) -> float:
        """W: tuples in the window of a join."""
        return self.selectivity.of(streams) * self._windows(streams)

    def rate_per_s(self, streams: int) -> float:
        """λ: tuples a join emits per second."""
        if streams & (streams - 1) == 0:
            return self.streams[streams.bit_length() - 1].rate_per_s
        return self.selectivity.of(streams) * self.density(streams)

    def size_bytes(self, streams: int) -> float:
        if self._size_of is not None:
            return self._size_of(streams)
        return sum(self.streams[i].size_bytes for i in bits(streams))

    def bytes_per_s(self, streams: int) -> float:
        if streams not in self._bytes:
            self._bytes[streams] = self.rate_per_s(streams) * self.size_bytes(streams)
        return self._bytes[streams]

    def density(self, streams: int) -> float:
        """The rate of a join per unit of selectivity: Π W_i · Σ λ_i / W_i."""
        return self._windows(streams) * sum(self.streams[i].turnover_per_s for i in bits(streams))

    def _windows(self, streams: int) -> float:
        return float(np.prod([self.streams[i].window_tuples for i in bits(streams)]))

    def all_bytes_per_s(self) -> F64:
        """`bytes_per_s` of every set of streams, by mask."""
        masks = range(1, 1 << len(self.streams))
        scale = np.array([0.0, *(self.density(mask) * self.size_bytes(mask) for mask in masks)])
        rates = self.selectivity.of_all() * scale
        for i, stream in enumerate(self.streams):
            rates[1 << i] = stream.rate_per_s * self.size_bytes(1 << i)
        return np.asarray(rates)


class PartitionedRates:
    """A model partitioned by one attribute: the bytes of every set of streams, as an array over partitions."""

    def __init__(self, model: RateModel, attribute: int, partition_of: I64, partitions: int) -> None:
        assert isinstance(model.selectivity, HistogramSelectivity), "partitions need histograms"
        self.model, self.attribute, self.partitions = model, attribute, partitions
        self._selectivity = model.selectivity
        self.partition_of = partition_of
        self._bytes: dict[int, F64] = {}

    def bytes_per_s(self, streams: int) -> F64:
        if streams not in self._bytes:
            products = self._selectivity.histograms[self.attribute].products(streams)
            shares = np.bincount(self.partition_of, weights=products, minlength=self.partitions)
            scale = self._selectivity.without(self.attribute, streams) * self._density(streams)
            self._bytes[streams] = np.asarray(shares, np.float64) * (scale * self.model.size_bytes(streams))
        return self._bytes[streams]

    def _density(self, streams: int) -> float:
        if streams & (streams - 1) == 0:
            return self.model.streams[streams.bit_length() - 1].rate_per_s
        return self.model.density(streams)

    def of(self, partition: int) -> Partition:
        return Partition(self, partition)


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as a model of its own."""

    rates: PartitionedRates
    number: int

    @property
    def streams(self) -> tuple[StreamRate, ...]:
        return self.rates.model.streams

    @property
    def neighbours(self) -> tuple[int, ...]:
        return self.rates.model.neighbours

    def bytes_per_s(self, streams: int) -> float:
        return float(self.rates.bytes_per_s(streams)[self.number])
