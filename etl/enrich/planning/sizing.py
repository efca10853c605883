"""Divide one byte budget among all parts of a join.

budget = front stage + pending tuples (H_S, Q) + disk buffer (+ rows of one lookup)

front stage   15 % with MESHJOIN and HYBRIDJOIN, where pending tuples amortise pages; most of it with INLJ
disk buffer   MESHJOIN: the number of pages with the least cost per tuple, from the cost model; a larger buffer has
              fewer steps, a smaller one leaves more room for tuples
"""

from __future__ import annotations

from dataclasses import dataclass

from etl.enrich.errors import BudgetTooSmall
from etl.enrich.front_stage.stage import LEAST_BYTES
from etl.enrich.planning.cost import MasterProfile
from etl.enrich.tactics.pending import bytes_for

FRONT_SHARE = 0.15
_BUFFER_SHARE = 0.10  # of the budget at most, for pages selected by several queue elements
_LOOKUP_SHARE = 0.25  # of the budget at most, for the rows of one lookup
_LEAST_TUPLES = 16
_STEP_IN_PAGES = 0.5  # the overhead of a step, in page reads


@dataclass(frozen=True, slots=True)
class Sizes:
    """The parts of one join, in their own units."""

    front_bytes: int = 0
    capacity: int = 0  # h_S, pending tuples
    pages_per_step: int = 1  # k, disk buffer of MESHJOIN
    lookups: int = 1  # queue elements that select pages at once, HYBRIDJOIN
    lookup_tuples: int = 0  # tuples per lookup, INLJ


def pending_for(size_bytes: int, profile: MasterProfile) -> int:
    """How many pending tuples fit into `size_bytes`."""
    keys = profile.key_bytes * 1.7  # dead runs keep their keys until the sweep; key lengths vary
    thousand = bytes_for(4096, two_lanes=profile.two_lanes) / 4096 + keys
    count = int(size_bytes / thousand)
    while count > 0 and bytes_for(count, two_lanes=profile.two_lanes) + keys * count > size_bytes:
        count -= max(1, count // 64)
    return count


def size_mesh(
    budget_bytes: int,
    profile: MasterProfile,
    *,
    front: bool,
    share: float = FRONT_SHARE,
    pages: int | None = None,
) -> Sizes:
    """Front stage first, then the disk buffer with the least cost per tuple."""
    front_bytes = _front(budget_bytes, share) if front else 0
    rest = budget_bytes - front_bytes
    best, best_cost = Sizes(), float("inf")
    tried = [pages] if pages else [1 << i for i in range(max(1, profile.page_count).bit_length())]
    for count in tried:
        capacity = pending_for(rest - count * profile.page_bytes, profile)
        if capacity < _LEAST_TUPLES:
            break
        cost = (_STEP_IN_PAGES / count + 1.0) / capacity
        if cost < best_cost:
            best, best_cost = Sizes(front_bytes, capacity, pages_per_step=count), cost
    return _checked(best, "MESHJOIN", budget_bytes, front_bytes, profile)


def size_hybrid(
    budget_bytes: int,
    profile: MasterProfile,
    *,
    front: bool,
    share: float = FRONT_SHARE,
    lookups: int | None = None,
) -> Sizes:
    """Front stage, a disk buffer of a tenth, and pending tuples."""
    front_bytes = _front(budget_bytes, share) if front else 0
    lookups = lookups or max(1, min(256, int(budget_bytes * _BUFFER_SHARE / max(1, profile.page_bytes))))
    rest = budget_bytes - front_bytes - lookups * profile.page_bytes
    return _checked(
        Sizes(front_bytes, pending_for(rest, profile), lookups=lookups),
        "HYBRIDJOIN",
        budget_bytes,
        front_bytes,
        profile,
    )


def size_inlj(budget_bytes: int, profile: MasterProfile, *, front: bool, most_tuples: int) -> Sizes:
    """At most a quarter for the rows of one lookup, the rest for the front stage."""
    room = budget_bytes * (_LOOKUP_SHARE if front else 1.0)
    per_tuple = profile.row_bytes + 16 + profile.key_bytes
    tuples = max(1, min(most_tuples, int(room / per_tuple)))
    front_bytes = budget_bytes - int(tuples * per_tuple) if front else 0
    if front and front_bytes < LEAST_BYTES:
        raise BudgetTooSmall("INLJ with a front stage", budget_bytes, int(LEAST_BYTES / (1 - _LOOKUP_SHARE)) + 1)
    return Sizes(front_bytes, lookup_tuples=tuples)


def _front(budget_bytes: int, share: float) -> int:
    return max(LEAST_BYTES, int(budget_bytes * share))


def _checked(sizes: Sizes, join: str, budget_bytes: int, front_bytes: int, profile: MasterProfile) -> Sizes:
    if sizes.capacity >= _LEAST_TUPLES:
        return sizes
    tuples = bytes_for(2 * _LEAST_TUPLES, two_lanes=profile.two_lanes) + 4 * _LEAST_TUPLES * profile.key_bytes
    raise BudgetTooSmall(join, budget_bytes, front_bytes + 2 * profile.page_bytes + tuples)
