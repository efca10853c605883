"""The process of one contender: `python -m bench.pipeline.drive task.json result.json`.

    session ─▶ for every site: a fresh warehouse ─▶ for every cell: warm-up, timed batches ─▶ rows counted ─▶ result

Landing files, reading counters and counting rows are not timed. This module imports nothing of the engine but its
errors: the contender does, and one of them comes with an engine of its own (`before`).
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from bench.measured import keep, progress
from bench.pipeline.orders import Kinds, Orders
from bench.pipeline.plan import UNCHECKED, Cell, Site, Task
from bench.pipeline.probe import Probe
from etl.errors import FrontstageError, TerminalError

Row = dict[str, Any]


class Pipeline(Protocol):
    """One warehouse of a contender."""

    tables: Path

    def land(self, files: Sequence[Path]) -> None:
        """Make the files the next batch. Not timed."""
        ...

    def run(self, *, checkpoint: bool) -> dict[str, float]:
        """One whole micro-batch; the seconds of its phases."""
        ...

    def counts(self) -> Kinds:
        """Rows by where they are, counted in the tables: fact, rejects, backlog, duplicates."""
        ...

    def expected(self, kinds: Kinds) -> Kinds:
        """Where the generator's lines have to be."""
        ...

    def close(self) -> None: ...


class Session(Protocol):
    """A contender with its Spark."""

    spark: SparkSession

    def open(self, site: Site) -> Pipeline:
        """A fresh warehouse, masters loaded."""
        ...


class Measures(Protocol):
    """Runs one batch and says what it did."""

    def measure(self, work: Callable[[], dict[str, float]]) -> Row: ...


class WrongAnswer(TerminalError):
    """A contender whose speed means nothing."""

    def __init__(self, contender: str, found: Kinds, expected: Kinds) -> None:
        super().__init__(contender, found, expected)
        self.contender, self.found, self.expected = contender, found, expected

    def __str__(self) -> str:
        return f"{self.contender} ended with {self.found}; the generator put in {self.expected}"


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A contender's pipeline on one site, with what has landed there so far."""

    orders: Orders
    pipeline: Pipeline
    probe: Measures
    landed: Counter[str] = field(default_factory=Counter)

    def batch(self, size: int, number: int, variant: str) -> Row:
        """Land one batch, run it, and say what it did."""
        batch = self.orders.batch(size, number)
        self.pipeline.land(batch.files)
        self.landed.update(batch.kinds)
        return self.probe.measure(lambda: self.pipeline.run(checkpoint=variant != UNCHECKED))

    def check(self, contender: str) -> None:
        """Refuse a contender that has lost, doubled or misplaced a line."""
        found, expected = self.pipeline.counts(), self.pipeline.expected(self.landed)
        if found != expected:
            raise WrongAnswer(contender, found, expected)
        progress(f"{contender}: every order is where it belongs, {found}")


@dataclass(slots=True)
class Drive:
    """One contender on its way through its task."""

    task: Task
    probe_of: Callable[[SparkSession, Path, str], Measures] = Probe
    clock: Callable[[], float] = time.monotonic
    rows: list[Row] = field(default_factory=list)
    history: list[Row] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    _ends: float = field(init=False)

    def __post_init__(self) -> None:
        self._ends = self.clock() + self.task.budget_s

    def run(self, session: Session) -> None:
        """Every site in turn."""
        for site in self.task.sites:
            if self._late():
                self.left_out.append(site.name)
                continue
            progress(f"{self.task.contender}: {site.name}, masters of {site.masters:,} rows")
            with closing(session.open(site)) as pipeline:
                probe = self.probe_of(session.spark, pipeline.tables, self.task.dsns[site.name])
                self._site(site, Warehouse(Orders(Path(self.task.orders), site.masters), pipeline, probe))

    def _site(self, site: Site, warehouse: Warehouse) -> None:
        for cell in site.cells:
            if self._late():
                self.left_out.append(f"{site.name}, {cell.size:,} orders")
                continue
            runs = self._cell(cell, warehouse)
            if site.history:
                kept = ("seconds", "driver_bytes", "spark_jobs")
                self.history += [{"number": at, **{w: run[w] for w in kept}} for at, (_, run) in enumerate(runs, 1)]
            else:
                self.rows += [_row(site, cell, name, runs) for name in cell.variants]
        if warehouse.landed:
            warehouse.check(self.task.contender)

    def _cell(self, cell: Cell, warehouse: Warehouse) -> list[tuple[str, Row]]:
        """The timed runs of a cell, each with the name of its variant: at least one of each, however late it is."""
        timed: list[tuple[str, Row]] = []
        numbers, spent_s = iter(range(cell.batches)), 0.0
        for turn in range(cell.warmups + cell.timed):
            counts = turn >= cell.warmups or self._late()
            if timed and (spent_s > cell.budget_s or self._late()):
                break
            for name in cell.variants:
                run = warehouse.batch(cell.size, next(numbers), name)
                progress(f"{name}: {cell.size:>7,} orders {run['seconds']:8.2f} s{'' if counts else '  (warm-up)'}")
                if counts:
                    timed.append((name, run))
                    spent_s += run["seconds"]
        return timed

    def _late(self) -> bool:
        return self.clock() > self._ends

    def result(self) -> Row:
        return {"rows": self.rows, "history": self.history, "left_out": self.left_out}


def _row(site: Site, cell: Cell, name: str, runs: list[tuple[str, Row]]) -> Row:
    """Medians over the timed batches of one variant."""
    own = [run for variant, run in runs if variant == name]
    counted = ("spark_jobs", "spark_stages", "log_entries", "delta_bytes", "wal_bytes")
    phases = {phase: _median([run["phases"][phase] for run in own]) for phase in own[0]["phases"]}
    return {
        "contender": name,
        "masters": site.masters,
        "batch": cell.size,
        "seconds": _median([run["seconds"] for run in own]),
        "seconds_of_batches": [round(run["seconds"], 4) for run in own],
        "phases": phases,
        **{what: statistics.median_high([run[what] for run in own]) for what in counted},
        "most_spark_jobs": max(run["spark_jobs"] for run in own),
    }


def _median(seconds: Sequence[float]) -> float:
    return round(statistics.median(seconds), 4)


def session_of(task: Task) -> AbstractContextManager[Session]:
    """The contender by its name; its module is imported here and nowhere else."""
    module = importlib.import_module(f"bench.pipeline.{task.contender}")
    session: AbstractContextManager[Session] = module.session(task)
    return session


def main() -> None:
    task, output = Task.from_json(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    drive = Drive(task)
    try:
        with session_of(task) as session:
            drive.run(session)
    except FrontstageError as error:
        sys.exit(str(error))
    keep(drive.result(), output)


if __name__ == "__main__":
    main()
