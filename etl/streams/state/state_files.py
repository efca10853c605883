"""Runs of a correlation's state as files: written by units, memory-mapped by their next owners.

    state/<correlation>/<batch>-<try>-….runs      the new runs of all units of one task: rows, directory, rows, …

A run is immutable, and the ledger records its owner: `FILE#3` is the fourth run of a file. So moving a run to another
unit or worker only changes a table row. Opened files stay mapped in the Python worker, so that a batch's cost depends
on the batch, not on the window. Runs of one task share a file because every file costs a sync (ADR 52).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from etl.correlate.index.runs import Run
from etl.correlate.model import Side
from etl.streams.storage.files import FileDamaged, FileStore
from etl.streams.storage.log import from_ipc, to_ipc


@dataclass(frozen=True, slots=True)
class StateRun:
    """A run in the ledger: its owner and its content."""

    step: int
    unit: int
    side: Side
    period: int
    name: str
    tuples: int
    bytes: int
    earliest: int
    latest: int

    @property
    def file(self) -> str:
        return self.name.partition("#")[0]


@dataclass(slots=True)
class RunWriter:
    """The file of a task's new runs."""

    store: FileStore
    name: str
    _parts: list[pa.RecordBatch] = field(default_factory=list)

    def add(self, step: int, unit: int, side: Side, period: int, run: Run) -> StateRun:
        """Add a run; all are written on `close`."""
        name = f"{self.name}#{len(self._parts) // 2}"
        self._parts += run.to_batches()
        return StateRun(step, unit, side, period, name, len(run), run.nbytes, run.earliest, run.latest)

    def close(self) -> None:
        if self._parts:
            self.store.write(self.name, to_ipc(self._parts))


class _RunFile:
    """An open file; its runs are built lazily from mapped columns."""

    def __init__(self, content: pa.Buffer, name: str) -> None:
        self._name, self._parts = name, from_ipc(content, name)
        self._runs: dict[int, Run] = {}

    def run(self, number: int) -> Run:
        if number not in self._runs:
            parts = self._parts[2 * number : 2 * number + 2]
            if len(parts) != 2:
                raise FileDamaged(self._name, "has fewer runs than were decided")
            self._runs[number] = Run.from_batches(self._name, *parts)
        return self._runs[number]


def open_run(store: FileStore, one: StateRun) -> Run:
    """The run that the ledger names, mapped."""
    run = store.open(one.file, _RunFile).run(int(one.name.partition("#")[2]))
    if (len(run), run.earliest, run.latest) != (one.tuples, one.earliest, one.latest):
        raise FileDamaged(one.file, "holds another run than the one that was decided")
    return run


def moved(one: StateRun, unit: int) -> StateRun:
    """The same run at another unit."""
    return replace(one, unit=unit)
