"""Equations 1 and 2 of the paper: the cost of a join for a set of queries that share it.

    COST(S1 ⋈ S2) = b1·Crd(S1) + b2·Crd(S2)      indexing, where a side is a source or is re-indexed
                  + Min(DistKey1, DistKey2)      intersecting the indexes
                  + bm·Crd(S1 ⋈ S2)              materialising rows, at the sink of queries that return rows

Crd of several queries is the size of the union of their tuples. Cardinalities of joins follow from rows and
distinct keys under containment: |S1 ⋈ S2| = rows1·rows2 / max(keys1, keys2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from etl.correlate.adhoc.optimize.statistics import Statistics
from etl.correlate.adhoc.plan import Leaf, Tree, joins_of
from etl.correlate.adhoc.query.model import End, Query


def crd(sets: Sequence[frozenset[object]]) -> int:
    """Equation 1, by inclusion and exclusion: the size of the union of possibly intersecting sets."""
    total = 0
    for many in range(1, len(sets) + 1):
        for some in combinations(sets, many):
            total += (-1) ** (many + 1) * len(frozenset.intersection(*some))
    return total


@dataclass(frozen=True, slots=True)
class JoinCost:
    """The parts of equation 2."""

    index_left: float
    index_right: float
    intersect: float
    materialise: float

    @property
    def total(self) -> float:
        return self.index_left + self.index_right + self.intersect + self.materialise


@dataclass(frozen=True, slots=True)
class Estimate:
    """A side of a join: its number of combinations, and the number of remaining tuples of each stream."""

    combinations: float
    left: dict[str, float]


class CostModel:
    """Costs of trees for sets of queries, from samples. Memoized."""

    def __init__(self, statistics: Statistics, queries: dict[str, Query]) -> None:
        self._statistics, self._queries = statistics, queries
        self._known: dict[tuple[Tree, frozenset[str]], tuple[JoinCost | None, Estimate]] = {}

    def join(self, tree: Tree, sharers: frozenset[str], sinks: frozenset[str] = frozenset()) -> JoinCost:
        """The cost of a tree's last join, shared by `sharers`; `sinks` are those that return its result as rows."""
        cost, _ = self._shared(tree, sharers)
        assert cost is not None, "a leaf costs nothing by itself"
        rows = frozenset(name for name in sinks if self._queries[name].materialises)
        pairs = self._shared(tree, rows)[1].combinations if rows else 0.0
        return JoinCost(cost.index_left, cost.index_right, cost.intersect, pairs)

    def alone(self, tree: Tree, query: str) -> float:
        """The cost of a whole tree for one query that shares nothing (MinShared)."""
        one = frozenset((query,))
        return sum(self.join(each, one, one if each == tree else frozenset()).total for each in joins_of(tree))

    def cardinality(self, tree: Tree, sharers: frozenset[str]) -> float:
        return self._shared(tree, sharers)[1].combinations

    def _shared(self, tree: Tree, sharers: frozenset[str]) -> tuple[JoinCost | None, Estimate]:
        known = self._known.get((tree, sharers))
        if known is None:
            known = self._known[tree, sharers] = self._computed(tree, sharers)
        return known

    def _computed(self, tree: Tree, sharers: frozenset[str]) -> tuple[JoinCost | None, Estimate]:
        if isinstance(tree, Leaf):
            rows = self._statistics.cardinality(tree.stream, sharers)
            return None, Estimate(rows, {tree.stream: rows})
        sides = (self._shared(tree.left, sharers)[1], self._shared(tree.right, sharers)[1])
        ends = (tree.edge.left, tree.edge.right)
        keys = [self._keys(end, side, sharers) for end, side in zip(ends, sides, strict=True)]
        left, right = (side.left[end.stream] for end, side in zip(ends, sides, strict=True))
        most = max(*keys, 1.0)
        after = dict(sides[0].left) | dict(sides[1].left)
        after[ends[0].stream] = left * min(1.0, keys[1] / max(keys[0], 1e-9))
        after[ends[1].stream] = right * min(1.0, keys[0] / max(keys[1], 1e-9))
        joined = Estimate(sides[0].combinations * sides[1].combinations / most, after)
        return JoinCost(left, right, min(keys), 0.0), joined

    def _keys(self, end: End, side: Estimate, sharers: frozenset[str]) -> float:
        """Distinct keys of a stream's remaining tuples, at most their number."""
        return min(self._statistics.distinct(end, sharers), side.left[end.stream])
