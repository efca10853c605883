"""Runs of a correlation's state as files: written by the unit that made them, mapped by whoever holds them next.

    state/<correlation>/<batch>-<try>-<step>-<unit>-….run      rows, then the directory of a hash run

A run never changes, and where it belongs is for the ledger to say: its name only tells who wrote it. So moving a run to
another unit, or giving it to another worker, costs an entry in a table. Runs that were opened stay mapped in the Python
worker, which makes a batch cost what the batch brings, not what the window holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from etl.correlate.model import Side
from etl.correlate.runs import Run
from etl.streams.files import FileDamaged, FileStore
from etl.streams.log import from_ipc, to_ipc


@dataclass(frozen=True, slots=True)
class StateRun:
    """A run as the ledger names it: whose it is, and what is in it."""

    step: int
    unit: int
    side: Side
    period: int
    name: str
    tuples: int
    bytes: int
    earliest: int
    latest: int


def write_run(store: FileStore, name: str, run: Run) -> int:
    """Write a run; gives its size."""
    return store.write(name, to_ipc(list(run.to_batches())))


def open_run(store: FileStore, one: StateRun) -> Run:
    """The run that the ledger names, mapped."""
    run = store.open(one.name, _parsed)
    if (len(run), run.earliest, run.latest) != (one.tuples, one.earliest, one.latest):
        raise FileDamaged(one.name, "is another run than the one that was decided")
    return run


def _parsed(content: pa.Buffer, name: str) -> Run:
    parts = from_ipc(content, name)
    if len(parts) != 2:
        raise FileDamaged(name, "is not a run of state")
    return Run.from_batches(name, *parts)
