"""Which files of the backlog to retry: those with an event whose master row may have come.

    file waits for time ─────────────────────────────▶ always
    a grace is used up ──────────────────────────────▶ always
    a master has changed ─┬─ changed keys known ─────▶ if one of the keys that the file waits for is among them
                          └─ unknown ────────────────▶ always
    every 50th batch ────────────────────────────────▶ always: a missed change must not make an event wait forever

The parts of the master versions of the last decision are known to this process only; a new process retries every file
once. See ADR 63.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from etl.adapters.ledger import BacklogFile, BatchRecord
from etl.masters.masters import PinnedMaster, versions_of
from etl.masters.pages.view import MasterPages
from etl.pipeline.process_state import process_state
from etl.pipeline.tasks.enrich import join_keys
from etl.pipeline.tasks.plan import Places
from etl.validate.route import SHED

EVERY = 50
"""Every so many batches all events that wait for a master are retried, regardless of its changes."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The parts of each master's version at the last decision, by name."""

    batch: int
    versions: Mapping[str, int]
    parts: Mapping[str, tuple[str, ...]]

    def is_of(self, record: BatchRecord) -> bool:
        return (self.batch, self.versions) == (record.batch, record.master_versions)


def remember(places: Places, batch: int, masters: Sequence[PinnedMaster]) -> None:
    """Remember the versions a decision has seen: events that still wait can only be resolved by later ones."""
    parts = {one.master.name: _parts(one) for one in masters}
    process_state().decided[places.tables] = Decided(batch, versions_of(masters), parts)


def _parts(pinned: PinnedMaster) -> tuple[str, ...]:
    with pinned.open() as reader:
        return reader.parts if isinstance(reader, MasterPages) else ()


def may_go_on(
    files: Sequence[BacklogFile], places: Places, masters: Sequence[PinnedMaster], last: BatchRecord | None
) -> frozenset[str]:
    """The files, by path, with an event whose master row may have come since the last decision."""
    if last is None or last.batch % EVERY == 0:
        return frozenset(file.path for file in files)
    if last.master_versions == versions_of(masters):
        return frozenset()
    known: Decided | None = process_state().decided.get(places.tables)
    parts = known.parts if known is not None and known.is_of(last) else {}
    changed = [one for one in masters if last.master_versions.get(one.master.name) != one.version]
    required = [one for one in changed if one.master.required]
    return frozenset(file.path for file in files if required and _touched(places, file, required, parts))


def _touched(
    places: Places, file: BacklogFile, changed: Sequence[PinnedMaster], since: Mapping[str, tuple[str, ...]]
) -> bool:
    columns = sorted({name for one in changed for name in one.master.stream_columns})
    rows = pq.read_table(places.waiting(file.path), columns=[*columns, "reasons"])
    for one in changed:
        waiting = rows.filter(_waits_for(rows["reasons"].combine_chunks(), one.master.name))
        with one.open() as reader:
            earlier = since.get(one.master.name)
            if not isinstance(reader, MasterPages) or not earlier:
                return True
            seen = reader.touched(join_keys(waiting, one.master), earlier)
            if seen is None or seen.any():
                return True
    return False


def _waits_for(reasons: pa.ListArray, master: str) -> pa.Array:
    """Events that lacked this master's row, or were shed before it was looked up."""
    meant = pc.is_in(reasons.flatten(), value_set=pa.array([f"unknown_{master}", SHED]))
    waits = np.zeros(len(reasons), np.bool_)
    waits[pc.list_parent_indices(reasons).filter(meant).to_numpy()] = True
    return pa.array(waits)
