"""How the values of a join attribute are divided among partitions: by hash, by range, by rate.

Values are 64-bit codes (an integer is its own code). The finest substreams of the paper, FStreams, are one per value.
By rate, values with similar rankings of streams share a partition: the vector of a value has, for every stream, the
rank of its substream by rate, and k-means clusters the vectors.

When there are fewer different vectors than partitions, k-means cannot separate equal vectors. Then each vector has its
own partition, and the remaining partitions split the vectors with the most bytes by the rates of their values: hot
values need other plans than cold ones (ADR 46).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from etl.correlate.multiway.codes import mix
from etl.correlate.multiway.errors import PartitionsNotPositive
from etl.correlate.multiway.rates import F64, I64, Histogram

By = Literal["hash", "range", "rate"]
_ROUNDS = 50


class Partitioner(Protocol):
    """Divides codes of values among `partitions`."""

    @property
    def partitions(self) -> int: ...

    def assign(self, codes: I64) -> I64: ...

    def rest(self) -> int:
        """The partition of values that are not in the histogram, for the model."""
        ...


@dataclass(frozen=True, slots=True)
class HashPartitioner:
    partitions: int

    def assign(self, codes: I64) -> I64:
        return np.asarray(mix(codes) % np.uint64(self.partitions), np.int64)

    def rest(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class RangePartitioner:
    """Equal parts of the range from the smallest to the largest value; `bounds` are the first values of 1, 2, …"""

    bounds: tuple[int, ...]

    @property
    def partitions(self) -> int:
        return len(self.bounds) + 1

    def assign(self, codes: I64) -> I64:
        return np.asarray(np.searchsorted(np.array(self.bounds, np.int64), codes, side="right"), np.int64)

    def rest(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class TablePartitioner:
    """A partition per known value, in order of the codes; every other value goes to `default`."""

    codes: tuple[int, ...]
    numbers: tuple[int, ...]
    default: int
    partitions: int

    def assign(self, codes: I64) -> I64:
        known = np.array(self.codes, np.int64)
        if not len(known):
            return np.full(len(codes), self.default, np.int64)
        at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
        return np.asarray(np.where(known[at] == codes, np.array(self.numbers, np.int64)[at], self.default))

    def rest(self) -> int:
        return self.default


def partitioner(by: By, partitions: int, histogram: Histogram, rates: F64, seed: int = 0) -> Partitioner:
    """`rates[i, v]` are the bytes per second of input i with value v; the last column is the average other value."""
    if partitions < 1:
        raise PartitionsNotPositive(partitions)
    if by == "hash":
        return HashPartitioner(partitions)
    if by == "range":
        return by_range(histogram.codes, partitions)
    return by_rate(histogram.codes, rates, partitions, seed)


def by_range(codes: I64, partitions: int) -> RangePartitioner:
    if not len(codes):
        return RangePartitioner(())
    low, high = int(codes.min()), int(codes.max()) + 1
    bounds = {low + -(-(high - low) * part // partitions) for part in range(1, partitions)}
    return RangePartitioner(tuple(sorted(bound for bound in bounds if low < bound < high)))


def by_rate(codes: I64, rates: F64, partitions: int, seed: int = 0) -> TablePartitioner:
    """Values outside the histogram count as one more value; if there are none, they belong to the coldest one."""
    weight = rates.sum(axis=0)
    values = len(codes) + bool(weight[-1] > 0.0 or not len(codes))
    numbers = cluster(rank_vectors(rates[:, :values]), weight[:values], partitions, np.random.default_rng(seed))
    default = numbers[-1] if values > len(codes) else numbers[weight[:values].argmin()]
    order = np.argsort(codes)
    return TablePartitioner(
        tuple(codes[order].tolist()), tuple(numbers[order].tolist()), int(default), int(numbers.max()) + 1
    )


def rank_vectors(rates: F64) -> I64:
    """For each value (row), the place of every stream when they are sorted by their rate; equal rates by number."""
    return np.asarray(np.argsort(np.argsort(rates.T, axis=1, kind="stable"), axis=1) + 1, np.int64)


def cluster(vectors: I64, weight: F64, partitions: int, rng: np.random.Generator) -> I64:
    """A partition for every vector; all partitions are used if there are as many vectors."""
    distinct, of = np.unique(vectors, axis=0, return_inverse=True)
    of = of.reshape(-1)
    if len(distinct) >= partitions:
        counts = np.bincount(of, minlength=len(distinct)).astype(np.float64)
        return k_means(distinct.astype(np.float64), counts, partitions, rng)[of]
    return _split(of, len(distinct), weight, partitions)


def _split(of: I64, clusters: int, weight: F64, partitions: int) -> I64:
    """Split clusters by the weights of their members, the heaviest first, until there are enough partitions."""
    pieces = [np.flatnonzero(of == number) for number in range(clusters)]
    pieces = [piece[np.argsort(-weight[piece], kind="stable")] for piece in pieces]
    while len(pieces) < partitions and any(len(piece) > 1 for piece in pieces):
        heaviest = max(
            (n for n, piece in enumerate(pieces) if len(piece) > 1), key=lambda n: float(weight[pieces[n]].sum())
        )
        piece = pieces.pop(heaviest)
        total = np.cumsum(weight[piece])
        cut = min(max(1, int(np.searchsorted(total, total[-1] / 2))), len(piece) - 1)
        pieces[heaviest:heaviest] = [piece[:cut], piece[cut:]]
    numbers = np.empty(len(of), np.int64)
    for number, piece in enumerate(pieces):
        numbers[piece] = number
    return numbers


def k_means(points: F64, counts: F64, clusters: int, rng: np.random.Generator) -> I64:
    """Lloyd's algorithm with k-means++ seeds; an empty cluster is reseeded with the point farthest from its centre."""
    centres = _seeds(points, counts, clusters, rng)
    nearest = np.zeros(len(points), np.int64)
    for _ in range(_ROUNDS):
        distance = _squared(points, centres)
        found = distance.argmin(axis=1)
        for empty in np.setdiff1d(np.arange(clusters), found):
            lonely = np.bincount(found, minlength=clusters)[found] == 1
            far = int(np.where(lonely, -1.0, distance[np.arange(len(points)), found]).argmax())
            found[far] = empty
        if np.array_equal(found, nearest):
            break
        nearest = found
        total = np.bincount(nearest, weights=counts, minlength=clusters)
        sums = [np.bincount(nearest, weights=counts * column, minlength=clusters) for column in points.T]
        centres = np.stack(sums, axis=1) / total[:, None]
    return nearest


def _seeds(points: F64, counts: F64, clusters: int, rng: np.random.Generator) -> F64:
    chosen = [int(rng.choice(len(points), p=counts / counts.sum()))]
    distance = _squared(points, points[chosen]).reshape(-1)
    while len(chosen) < clusters:
        chance = counts * distance
        chosen.append(int(rng.choice(len(points), p=chance / chance.sum())))
        distance = np.minimum(distance, _squared(points, points[chosen[-1:]]).reshape(-1))
    return np.asarray(points[chosen])


def _squared(points: F64, centres: F64) -> F64:
    inner = points @ centres.T
    squares = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :] - 2 * inner
    return np.asarray(np.maximum(squares, 0.0))
