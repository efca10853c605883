"""The plan of a stream: the kind of every line, and its order, as a function of the line number.

    line   0      1      2          3      4          …
    kind   clean  clean  duplicate  late   conflict
    order  0      1      0          3      1          a line that repeats speaks of an earlier line's order

Kinds come from one draw per line against the shares. Duplicates and conflicts pick an earlier line that is an
order in its own right: half look among the last thousand lines (the same batch), half anywhere before.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from etl.samples import draws
from etl.samples.config import SHARES, OrderConfig
from etl.samples.draws import Keys

RECENT_LINES = 1_000
_ROUNDS = 64


class Kind(IntEnum):
    """The kind of a line. The dirty ones are in the order of `SHARES`."""

    DUPLICATE = 0
    CONFLICT = 1
    MALFORMED = 2
    UNKNOWN_CUSTOMER = 3
    LATE_CUSTOMER = 4
    OUT_OF_RANGE = 5
    CLEAN = 6


@dataclass(frozen=True, slots=True)
class Plan:
    """For some lines: what each is, and which line's order it carries (its own, unless it repeats)."""

    line: Keys
    kind: NDArray[np.int64]
    source: Keys


def plan(config: OrderConfig, first: int, count: int, oldest: int) -> Plan:
    """Plan lines first … first+count-1. Repeats reach back to line `oldest` and no further."""
    line = np.arange(first, first + count, dtype=np.int64)
    kind, source = kinds(config, line), line.copy()
    repeats = np.flatnonzero(kind <= Kind.CONFLICT)
    earlier = _earlier_orders(config, line[repeats], oldest)
    source[repeats] = earlier
    nothing_yet = repeats[earlier == line[repeats]]
    kind[nothing_yet] = Kind.CLEAN  # The first lines of a stream have nothing to repeat.
    return Plan(line, kind, source)


def kinds(config: OrderConfig, line: Keys) -> NDArray[np.int64]:
    """The kind each line is drawn as."""
    edges = np.cumsum([getattr(config, name) for name in SHARES])
    return np.searchsorted(edges, draws.uniform(config.seed, "kind of line", line), side="right").astype(np.int64)


def _earlier_orders(config: OrderConfig, line: Keys, oldest: int) -> Keys:
    """For each line an earlier one that is an order in its own right; the line itself if none was found."""
    found, seeking = line.copy(), np.flatnonzero(line > oldest)
    for attempt in range(_ROUNDS):
        if not len(seeking):
            break
        at = line[seeking]
        reach = at - oldest
        if attempt == 0:  # The coin decides once; later rounds look anywhere.
            recent = draws.below(2, config.seed, "repeat something recent", at) == 0
            reach = np.where(recent, np.minimum(reach, RECENT_LINES), reach)
        back = (draws.uniform(config.seed, f"repeat, attempt {attempt}", at) * reach).astype(np.int64)
        candidate = at - 1 - back
        is_order = np.isin(kinds(config, candidate), (Kind.CLEAN, Kind.UNKNOWN_CUSTOMER, Kind.LATE_CUSTOMER))
        found[seeking[is_order]] = candidate[is_order]
        seeking = seeking[~is_order]
    return found
