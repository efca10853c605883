"""Measure unit costs by a short trial on the master: a few pages, a few lookups, a few milliseconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from etl.columnar.keys import encode, kind, to_contiguous
from etl.enrich.front_stage.row_store import row_bytes
from etl.enrich.planning.auto import Clock
from etl.enrich.planning.cost import MasterProfile, UnitCosts
from etl.enrich.ports import MasterIndex, MasterLookup, MasterScan
from etl.enrich.step import StreamTuples
from etl.enrich.tactics.pending import PendingTuples

_PAGES = 4
_KEYS = 512
_TRIES = 4  # the first one is also the warm-up
_LEAST_S = 1e-9


def profile_of(scan: MasterScan | None, *, row_bytes_guess: int = 200, page_rows_guess: int = 500) -> MasterProfile:
    """Sizes of pages, rows and keys, from the first page; guesses for masters that cannot be scanned."""
    pages = 0 if scan is None else scan.page_count()
    if scan is None or not pages:
        return MasterProfile(page_count=pages, page_rows=page_rows_guess, row_bytes=row_bytes_guess)
    rows = scan.read_pages(0, 1)
    keys = encode(rows.column(0))
    mean = -(-int(row_bytes(rows).sum()) // max(1, rows.num_rows))
    own = (
        0
        if kind(rows.schema.field(0).type) == "integer"
        else -(-int(row_bytes(rows.select([0])).sum()) // rows.num_rows)
    )
    return MasterProfile(pages, rows.num_rows, mean, keys.hi is not None, own)


def measure_units(
    units: UnitCosts,
    clock: Clock,
    *,
    lookup: MasterLookup | None,
    scan: MasterScan | None,
    index: MasterIndex | None,
) -> UnitCosts:
    """Unit costs by a trial. Without a scan there are no keys for one, and no tactics to choose between."""
    if scan is None or not scan.page_count():
        return units
    pages = np.unique(np.linspace(0, scan.page_count() - 1, _PAGES).astype(int))
    sample = [to_contiguous(scan.read_pages(int(page), 1).column(0)) for page in pages]
    pending = _some_pending(sample[0])

    def in_order() -> int:
        for page in pages:
            pending.match(encode(scan.read_pages(int(page), 1).column(0)), remove=False)
        return len(pages)

    units = replace(units, scan_page_s=_per_unit(clock, in_order))
    if index is not None:
        firsts = pa.concat_arrays([keys.slice(0, 1) for keys in sample])

        def by_key() -> int:
            rows, read = index.pages_holding(firsts)
            pending.match(encode(rows.column(0)), remove=False)
            return read

        units = replace(units, seek_page_s=_per_unit(clock, by_key))
    return units if lookup is None else _measure_lookups(units, clock, lookup, pa.concat_arrays(sample))


def _measure_lookups(units: UnitCosts, clock: Clock, lookup: MasterLookup, keys: pa.Array) -> UnitCosts:
    rng = np.random.default_rng(len(keys))
    some = keys.take(pa.array(rng.permutation(len(keys))[:_KEYS]))

    def ask(count: int) -> int:
        lookup.lookup(some.slice(0, count))
        return 1

    one, many = (_per_unit(clock, partial(ask, count)) for count in (1, len(some)))
    return replace(units, call_s=one, key_s=max(_LEAST_S, (many - one) / max(1, len(some) - 1)))


def _per_unit(clock: Clock, work: Callable[[], int]) -> float:
    """Seconds per unit of work: the minimum of a few tries, since noise only slows them down."""
    best = np.inf
    for _ in range(_TRIES):
        start = clock()
        units = work()
        best = min(best, (clock() - start) / max(1, units))
    return max(_LEAST_S, float(best))


def _some_pending(keys: pa.Array) -> PendingTuples:
    encoded = encode(keys)
    pending = PendingTuples(len(encoded))
    pending.load(StreamTuples(np.arange(len(encoded)), encoded))
    return pending
