"""Combinations of buckets to join: one per stream, at least one of them new, with slots within the longest window.

Each combination is generated once: by the first of its streams whose bucket is new. Buckets of earlier streams are then
old, those of later streams any. Partial combinations beyond the window are pruned early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from etl.correlate.adhoc.run.joins.bucket import When


def combinations(there: Sequence[Sequence[When]], newest: int, window: int) -> Iterator[tuple[When, ...]]:
    """All combinations whose latest bucket is of batch `newest`."""
    old = [[at for at in one if at.batch < newest] for one in there]
    new = [[at for at in one if at.batch == newest] for one in there]
    for first in range(len(there)):
        if new[first]:
            yield from _extended((), [*old[:first], new[first], *there[first + 1 :]], window)


def _extended(chosen: tuple[When, ...], rest: Sequence[Sequence[When]], window: int) -> Iterator[tuple[When, ...]]:
    if not rest:
        yield chosen
        return
    low = max((at.slot for at in chosen), default=-(1 << 62)) - window
    high = min((at.slot for at in chosen), default=1 << 62) + window
    for at in rest[0]:
        if low < at.slot < high:
            yield from _extended((*chosen, at), rest[1:], window)
