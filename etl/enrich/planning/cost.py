"""The cost model of joins: counts calculated from the data's distribution, times measured unit costs (ADR 14).

Counts per stream tuple, for a stream whose key i comes with probability p_i, in the steady state:

    front stage   h = sum of the p_i it holds                              1 probe per tuple, a share of (1 - h) misses
    MESHJOIN      a pass of N pages answers h_S tuples                     (1 - h) · N / h_S pages
    HYBRIDJOIN    page j, wanted with probability q_j, is loaded when its oldest tuple has waited T arrivals; by then
                  1 + q_j·T tuples wait for it. T follows from the size of the queue:
                      Σ q_j (T + q_j T²/2) / (1 + q_j T) = h_S             (1 - h) · Σ q_j / (1 + q_j T) pages
    INLJ          a batch of B tuples has Σ 1 - (1 - q_i)^B distinct keys  (1 - h) · distinct / B lookups

Absent keys count as pages of their own without rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from etl.enrich.step import Cost

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MasterProfile:
    """A master's sizes, for sizing and cost prediction."""

    page_count: int
    page_rows: int
    row_bytes: int
    two_lanes: bool = False
    key_bytes: int = 0  # of keys that are stored beside their fingerprint

    @property
    def page_bytes(self) -> int:
        return self.page_rows * self.row_bytes

    @property
    def rows(self) -> int:
        return self.page_count * self.page_rows


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Seconds per unit. The defaults were measured on mapped Arrow pages on two cores."""

    call_s: float = 3e-4  # fixed cost of one lookup call
    key_s: float = 5e-7  # one key of a lookup
    scan_page_s: float = 8e-5  # one page read in order, its rows probed
    seek_page_s: float = 2e-4  # one page found by key, its rows probed
    front_probe_s: float = 5e-8

    def seconds(self, cost: Cost) -> float:
        """The price of counted work."""
        calls = cost.seeks if cost.lookups and not cost.pages else 0
        sought = min(cost.seeks, cost.pages)
        return (
            calls * self.call_s
            + (0 if cost.pages else cost.lookups) * self.key_s
            + (cost.pages - sought) * self.scan_page_s
            + sought * self.seek_page_s
            + cost.front_probes * self.front_probe_s
        )


@dataclass(frozen=True, slots=True)
class PerTuple:
    """Calculated work per stream tuple."""

    pages: float = 0.0
    lookups: float = 0.0
    rows: float = 0.0
    front_probes: float = 0.0
    moved: float = 0.0  # through the pending tuples

    @classmethod
    def measured(cls, cost: Cost, tuples: int) -> PerTuple:
        return cls(*(getattr(cost, f.name) / max(1, tuples) for f in fields(cls)))


def hit_ratio(probability: F64, rows: int) -> float:
    """Share of the stream answered by a front stage that holds the `rows` most frequent keys."""
    rows = min(rows, len(probability))
    return float(np.partition(probability, len(probability) - rows)[len(probability) - rows :].sum()) if rows else 0.0


def passing(probability: F64, rows: int) -> F64:
    """The probabilities of the keys among the tuples that miss such a front stage."""
    left = probability.copy()
    if rows:
        left[np.argpartition(-probability, min(rows, len(left)) - 1)[:rows]] = 0.0
    total = left.sum()
    return left / total if total > 0 else left


def mesh_cost(profile: MasterProfile, capacity: int, *, hits: float, front: bool) -> PerTuple:
    """A pass over all pages, shared by all pending tuples."""
    missing = 1.0 - hits
    pages = missing * profile.page_count / capacity
    return PerTuple(pages, 0.0, pages * profile.page_rows, float(front), missing)


def hybrid_cost(
    page_probability: F64,
    absent_probability: F64,
    profile: MasterProfile,
    capacity: int,
    *,
    hits: float,
    front: bool,
) -> PerTuple:
    """Pages selected by the queue. Probabilities are those of tuples that miss the front stage."""
    wanted = np.concatenate([page_probability, absent_probability])
    wanted = wanted[wanted > 0]
    if not len(wanted):
        return PerTuple(front_probes=float(front))
    wait = _waiting_time(wanted, capacity)
    missing = 1.0 - hits
    pages = missing * float((page_probability / (1.0 + page_probability * wait)).sum())
    lookups = missing * float((wanted / (1.0 + wanted * wait)).sum())
    return PerTuple(pages, lookups, pages * profile.page_rows, float(front), missing)


def _waiting_time(wanted: F64, capacity: int) -> float:
    """How many arrivals the oldest tuple of a page waits (T), by bisection: a longer wait means a longer queue."""

    def queue(wait: float) -> float:
        return float((wanted * (wait + wanted * wait * wait / 2.0) / (1.0 + wanted * wait)).sum())

    low, high = 0.0, float(capacity)
    while queue(high) < capacity:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if queue(middle) < capacity else (low, middle)
    return high


def inlj_cost(passing_probability: F64, batch_tuples: int, *, found: float, hits: float, front: bool) -> PerTuple:
    """Distinct keys of a batch; `found` is the share of them that has a master row."""
    distinct = float((-np.expm1(batch_tuples * np.log1p(-np.minimum(passing_probability, 1.0 - 1e-12)))).sum())
    lookups = (1.0 - hits) * distinct / batch_tuples
    return PerTuple(0.0, lookups, lookups * found, float(front), 0.0)


def pages_touched(keys: int, page_count: int) -> float:
    """The expected number of pages that hold at least one of this many uniformly distributed keys."""
    return page_count * -np.expm1(keys * np.log1p(-1.0 / page_count)) if page_count > 1 else float(min(1, keys))
