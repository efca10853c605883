"""Routing: the units that store a tuple and the units that it probes (algorithm 1).

    slot = hash(key) mod m     slots belong to subgroups permanently: a key never changes its subgroup
    store   one unit of the own side's subgroup, a hash of the tuple's reference: the same in a retry
    probe   all units of the opposite side's subgroup that may hold tuples

random = one subgroup per side; hash = as many subgroups as units; contrand(d, e) = in between. A unit that is draining
still gets probes, but stores nothing. The join-matrix stores every tuple at all units of its row or column, and probes
there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from etl.columnar.multimap import hashes
from etl.correlate.errors import RoutingRefused
from etl.correlate.model import I64, U64, Side, Tuples, rows_of, segments_of

_ONE_LANE = np.zeros(0, np.uint64)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio


@dataclass(frozen=True, slots=True)
class Targets:
    """Tuple i goes to all units of `groups[group[i]]`."""

    group: I64
    groups: tuple[tuple[int, ...], ...]

    def expand(self) -> tuple[I64, I64]:
        """(position of the tuple, unit), a row per delivery."""
        sizes = np.array([len(group) for group in self.groups], np.int64)
        units = np.array([unit for group in self.groups for unit in group], np.int64)
        begins = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if len(sizes) else sizes
        counts = sizes[self.group]
        rows = np.repeat(np.arange(len(self.group)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        return rows, units[begins[self.group][rows] + within]

    @property
    def deliveries(self) -> int:
        sizes = np.array([len(group) for group in self.groups], np.int64)
        return int(sizes[self.group].sum()) if len(self.group) else 0


@dataclass(frozen=True, slots=True)
class Routing:
    store: Targets
    probe: Targets
    messages: int  # tuples sent; the matrix sends one copy for both purposes


class Router(Protocol):
    """Routes tuples of one side. Pure: the same tuples always go to the same units."""

    @property
    def units(self) -> tuple[int, ...]: ...

    def route(self, side: Side, tuples: Tuples) -> Routing: ...


@dataclass(frozen=True, slots=True)
class Subgroup:
    storing: tuple[int, ...]
    draining: tuple[int, ...] = ()  # released units, probed until their state has expired

    @property
    def probed(self) -> tuple[int, ...]:
        return self.storing + self.draining


@dataclass(frozen=True, slots=True)
class SideUnits:
    """The units of one side."""

    subgroups: tuple[Subgroup, ...]
    slots: tuple[int, ...]  # slot -> subgroup

    @classmethod
    def of(cls, units: tuple[int, ...], subgroups: int) -> SideUnits:
        """Subgroups of as equal size as possible; a subgroup has as many slots as units."""
        if not 1 <= subgroups <= len(units):
            raise RoutingRefused(f"contrand with {subgroups} subgroups of {len(units)} units",
                                 f"a side has at least one unit and 1 to {len(units)} subgroups")  # fmt: skip
        parts = [tuple(int(unit) for unit in part) for part in np.array_split(np.array(units), subgroups)]
        slots = [number for number, part in enumerate(parts) for _ in part]
        return cls(tuple(Subgroup(part) for part in parts), tuple(slots))

    def subgroup_of(self, keys: U64 | None, count: int) -> I64:
        if keys is None or len(self.subgroups) == 1:
            return np.zeros(count, np.int64)
        slots = (keys % np.uint64(len(self.slots))).astype(np.int64)
        return np.array(self.slots, np.int64)[slots]


@dataclass(frozen=True, slots=True)
class BicliqueRouter:
    left: SideUnits
    right: SideUnits
    seed: int = 0

    @classmethod
    def of(cls, m: int, n: int, d: int = 1, e: int = 1, *, seed: int = 0, equality: bool = True) -> BicliqueRouter:
        """m + n units with d and e subgroups; several subgroups need an equality, as keys determine the subgroup."""
        if (d > 1 or e > 1) and not equality:
            raise RoutingRefused(f"contrand({d}, {e}) without an equality", "only random routing knows no key")
        units = tuple(range(m + n))
        return cls(SideUnits.of(units[:m], d), SideUnits.of(units[m:], e), seed)

    def side(self, side: Side) -> SideUnits:
        return self.left if side == "left" else self.right

    @property
    def units(self) -> tuple[int, ...]:
        return tuple(unit for side in (self.left, self.right) for group in side.subgroups for unit in group.probed)

    def route(self, side: Side, tuples: Tuples) -> Routing:
        own, other = self.side(side), self.side("right" if side == "left" else "left")
        keys = hashes(hashes(tuples.lo, tuples.hi), _ONE_LANE) if len(tuples.lo) else None
        group = own.subgroup_of(keys, len(tuples))
        sizes = np.array([len(one.storing) for one in own.subgroups])
        begins = np.cumsum(sizes) - sizes
        storing = tuple((unit,) for one in own.subgroups for unit in one.storing)
        store = Targets(begins[group] + draw(tuples.refs, sizes[group], self.seed), storing)
        probe = Targets(other.subgroup_of(keys, len(tuples)), tuple(one.probed for one in other.subgroups))
        return Routing(store, probe, store.deliveries + probe.deliveries)

    def with_subgroup(self, side: Side, number: int, subgroup: Subgroup) -> BicliqueRouter:
        """The same routing with other units in one subgroup."""
        units = self.side(side)
        groups = tuple(subgroup if i == number else one for i, one in enumerate(units.subgroups))
        changed = replace(units, subgroups=groups)
        return replace(self, left=changed) if side == "left" else replace(self, right=changed)


@dataclass(frozen=True, slots=True)
class MatrixRouter:
    """The join-matrix: m rows for the left stream, n columns for the right one, m·n units."""

    m: int
    n: int
    seed: int = 0

    @property
    def units(self) -> tuple[int, ...]:
        return tuple(range(self.m * self.n))

    def route(self, side: Side, tuples: Tuples) -> Routing:
        count = self.m if side == "left" else self.n
        rows = tuple(tuple(range(i * self.n, (i + 1) * self.n)) for i in range(self.m))
        columns = tuple(tuple(range(j, self.m * self.n, self.n)) for j in range(self.n))
        targets = Targets(draw(tuples.refs, count, self.seed), rows if side == "left" else columns)
        return Routing(targets, targets, targets.deliveries)


def draw(refs: I64, sizes: I64 | int, seed: int) -> I64:
    """A number below `sizes` per tuple: uniformly distributed, independent of content, and deterministic.

    Rows of a segment step through a Weyl sequence, which fills all units more evenly than random numbers would.
    """
    if refs.shape[1] == 1:
        start = hashes(segments_of(refs[:, 0]).astype(np.uint64) ^ np.uint64(seed), _ONE_LANE)
        state = start + rows_of(refs[:, 0]).astype(np.uint64) * _GOLDEN
    else:
        state = np.full(len(refs), seed, np.uint64)
        for part in refs.T:
            state = hashes(state ^ part.astype(np.uint64), _ONE_LANE)
    return np.asarray((state >> np.uint64(32)).astype(np.int64) * sizes >> 32)
