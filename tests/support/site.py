"""A site for tests of the pipeline: one warehouse with its landing folders and database, and events to land in it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from etl import settings as configuration
from etl.adapters import ledger, postgres
from etl.adapters.ledger import BatchRecord
from etl.model import Step
from etl.pipeline.inspection import inventory
from etl.pipeline.inspection.inventory import Inventory
from etl.pipeline.microbatch import Executor, MicroBatch
from etl.pipeline.prepare import Preparer, places_of
from etl.pipeline.process_state import process_state
from etl.pipeline.steps import Steps
from etl.pipeline.tasks.plan import Places
from etl.settings import PROJECT, Settings


class Ended(Exception):
    """Stands for the end of the process at a checkpoint."""


@dataclass(frozen=True)
class Site:
    """One warehouse with its landing folders and database, seen through one of its pipelines."""

    steps: Steps
    settings: Settings
    dsn: str
    pipeline: str = "orders"

    @classmethod
    def under(cls, home: Path, dsn: str, executor: Executor) -> Site:
        """A new site in a folder, with the shipped pipelines."""
        own = configuration.load(home=home, jars=PROJECT / "var" / "jars")
        return cls(Steps(own, dsn, executor), own, dsn)

    @property
    def landing(self) -> Path:
        return self.settings.var / "landing" / self.pipeline

    @property
    def places(self) -> Places:
        return places_of(self.settings, Preparer(self.settings, self.dsn).declared(self.pipeline))

    def land(self, name: str | bytes, *events: dict[str, Any] | bytes) -> Path:
        """Let a file of events land; bytes are written as they are."""
        lines = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
        self.landing.mkdir(parents=True, exist_ok=True)
        path = self.landing / os.fsdecode(name)
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    def step(self, step: Step, batch: int | None = None, *, release: int | None = None) -> dict[str, Any]:
        """Run one step."""
        return self.steps.run(step, self.pipeline, "test", batch, release, quiet)

    def decide(self) -> int | None:
        """Run the first step only."""
        batch: int | None = self.step("ingest")["batch"]
        return batch

    def run(self) -> int | None:
        """Run a micro-batch into the mart, step by step as a DAG does."""
        batch = self.decide()
        if batch is not None:
            self.step("audit", batch)
            self.step("publish", batch)
        return batch

    @contextmanager
    def writing(self) -> Iterator[MicroBatch]:
        """The pipeline's batches, for tests that need more than the steps."""
        with self.steps._writing(self.pipeline, "test", quiet) as run:
            yield run

    def table(self, table: str) -> DeltaTable:
        return DeltaTable(str(self.settings.warehouse / self.pipeline / table))

    def rows(self, table: str) -> pa.Table:
        """What a Delta table holds."""
        return self.table(table).to_pyarrow_table()

    def totals(self) -> dict[str, int]:
        with ledger.reading(self.dsn, self.pipeline) as book:
            return book.totals()

    def record(self, batch: int) -> BatchRecord:
        with ledger.reading(self.dsn, self.pipeline) as book:
            return book.get(batch)

    def inventory(self) -> Inventory:
        """Everything counted where it is."""
        declared = Preparer(self.settings, self.dsn).declared(self.pipeline)
        with ledger.reading(self.dsn, self.pipeline) as book:
            return inventory.take(declared, self.places, book, self.dsn)

    def execute(self, query: str, *values: Any) -> list[Any]:
        with postgres.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall()) if cursor.description else []

    def changed(self, **settings: Any) -> Site:
        """The same site under other settings."""
        own = self.settings.model_copy(update=settings)
        return replace(self, steps=replace(self.steps, settings=own), settings=own)

    def redeclared(self, *edits: tuple[str, str], add: str = "") -> Site:
        """The same site after somebody has edited the pipeline's file."""
        folder = self.settings.home / "pipelines"
        if not folder.exists():
            shutil.copytree(self.settings.pipelines, folder)
        file = folder / f"{self.pipeline}.toml"
        text = file.read_text()
        for old, new in edits:
            assert old in text, f"{old!r} is not in the file"
            text = text.replace(old, new)
        file.write_text(text + add)
        return self.changed(pipelines=folder)

    def of(self, pipeline: str) -> Site:
        """The same site, seen through another pipeline."""
        return replace(self, pipeline=pipeline)

    def later(self, by: timedelta) -> Site:
        """The same site at a later time."""
        return replace(self, steps=replace(self.steps, clock=lambda: datetime.now(UTC) + by))

    def ending(self, checkpoint: str) -> Site:
        """The same site, whose next run ends at a checkpoint as if the process had been killed there."""

        def end() -> None:
            raise Ended(checkpoint)

        return self.meanwhile(checkpoint, end)

    def meanwhile(self, checkpoint: str, happens: Callable[[], object]) -> Site:
        """The same site, where something happens when a run reaches a checkpoint."""

        def reached(name: str) -> None:
            if name == checkpoint:
                happens()

        return replace(self, steps=replace(self.steps, checkpoint=reached))

    def restarted(self) -> Site:
        """The same site in what might be another process: nothing is remembered but what is stored."""
        self.close()
        state = process_state()
        state.prepared.clear()
        state.decided.clear()
        state._logs.clear()
        state._claims.clear()
        return self

    def close(self) -> None:
        """Wait for what goes on beside the last batches."""
        for pipeline in list(process_state()._learning):
            process_state().finish_learning(pipeline)


STRICT = """
[[expectations]]
type = "expect_column_max_to_be_between"
column = "quantity"
max_value = 1
"""
"""An expectation that most batches of orders fail."""
COPY_CUSTOMER = (
    "insert into master.customers select %s, name, address, nation, region, market_segment, phone, account_balance "
    "from master.customers where customer_id = 1"
)
"""A customer like customer 1, under another number."""


def order(order_id: int | None, **changes: Any) -> dict[str, Any]:
    """A good order, with changes."""
    good = {
        "order_id": order_id,
        "customer_id": 1,
        "product_id": 1,
        "quantity": 2,
        "unit_price": 9.99,
        "ordered_at": "2026-11-01T10:00:00.000Z",
    }
    return {**good, **changes}


def quiet(_: str) -> None:
    """Progress a test does not look at."""
