"""Runs of a correlation's state as files: written by the unit that made them, mapped by whoever holds them next.

    state/<correlation>/<batch>-<try>-<task>-<number>.run      rows, then the directory of a hash run

A run never changes and does not say which unit it belongs to: the ledger does. So moving a run to another unit, or
giving it to another worker, costs an entry in a table. Runs that were opened stay mapped in the Python worker, which
makes a batch cost what the batch brings, not what the window holds.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from etl.correlate.model import Side
from etl.correlate.runs import Run
from etl.streams.files import FileDamaged, FileStore
from etl.streams.log import from_ipc, to_ipc

_MOST_OPEN = 4096


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
    key = store.root, one.name
    known = _RUNS.get(key)
    if known is None:
        known = _RUNS[key] = _opened(store, one)
        while len(_RUNS) > _MOST_OPEN:
            _RUNS.popitem(last=False)
    else:
        _RUNS.move_to_end(key)
    return known


def _opened(store: FileStore, one: StateRun) -> Run:
    parts = from_ipc(store.open(one.name), one.name)
    if len(parts) != 2:
        raise FileDamaged(one.name, "is not a run of state")
    run = Run.from_batches(one.name, *parts)
    if (len(run), run.earliest, run.latest) != (one.tuples, one.earliest, one.latest):
        raise FileDamaged(one.name, "is another run than the one that was decided")
    return run


def forget_runs(store: FileStore, names: list[str]) -> None:
    """Let go of runs that were merged into others."""
    for name in names:
        _RUNS.pop((store.root, name), None)
    store.forget(names)


_RUNS: OrderedDict[tuple[str, str], Run] = OrderedDict()
