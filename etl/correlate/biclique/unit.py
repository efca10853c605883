"""One micro-batch at one unit, for one stored stream.

    1  probe the old sub-indexes with the batch's probes
    2  join the batch's own stores and probes, where the store precedes the probe in the global order
    3  insert, merge, archive
    4  expire (by the caller: at the other stream's watermark)

A pair is produced only when the later of the two tuples probes, at the unit that stores the earlier one. Every unit
sees a subsequence of one global order, so a pair is produced exactly once, whatever the delays (definition 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from etl.correlate.index.chain import ChainedIndex, Effort, Found
from etl.correlate.index.runs import Probes
from etl.correlate.model import Pairs, Side, Tuples
from etl.correlate.rows import Residual


@dataclass(frozen=True, slots=True)
class UnitStep:
    pairs: Pairs
    stored: int
    effort: Effort = field(default_factory=Effort)


def step(chain: ChainedIndex, stores: Tuples, probes: Tuples, residual: Residual | None) -> UnitStep:
    """Phases 1 to 3: `stores` are of the chain's side, `probes` of the other."""
    effort = Effort()
    prepared = chain.probes(probes) if len(probes) else None
    parts = [
        _pairs(chain.config.stored, found, prepared, residual)
        for found in _found(chain, stores, prepared, effort)
        if prepared is not None
    ]
    parts = [part for part in parts if len(part)]
    streams = (stores.refs.shape[1], probes.refs.shape[1])
    nothing = Pairs.none(*(streams if chain.config.stored == "left" else streams[::-1]))
    return UnitStep(Pairs.concat(parts) if parts else nothing, len(stores), effort)


def _found(chain: ChainedIndex, stores: Tuples, probes: Probes | None, effort: Effort) -> Iterator[Found]:
    if probes is not None:
        yield from chain.probe(probes, effort)
    yield from chain.insert(stores, probes, effort)


def _pairs(stored: Side, found: Found, probes: Probes, residual: Residual | None) -> Pairs:
    probing = probes.tuples.refs[found.probes]
    left, right = (found.refs, probing) if stored == "left" else (probing, found.refs)
    times = np.minimum(found.times, probes.tuples.times[found.probes])
    pairs = Pairs(left, right, times, found.places)
    return pairs if residual is None else pairs.take(residual.holds(left, right))
