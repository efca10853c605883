"""A site for tests of the pipeline: one warehouse with its landing folder and database, and orders to land in it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.adapters import ledger, postgres
from etl.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from etl.spark.steps import Steps
    from warehouse.star import DeltaTable


@dataclass(frozen=True)
class Site:
    """One warehouse with its landing folder and database."""

    steps: Steps
    settings: Settings
    dsn: str

    def land(self, name: str, *orders: dict[str, Any] | bytes) -> Path:
        """Let a file of orders land; bytes are written as they are."""
        lines = [order if isinstance(order, bytes) else json.dumps(order).encode() for order in orders]
        self.settings.landing.mkdir(parents=True, exist_ok=True)
        path = self.settings.landing / name
        path.write_bytes(b"".join(line + b"\n" for line in lines))
        return path

    def decide(self) -> str | None:
        """Run the first step only."""
        batch: str | None = self.steps.run("ingest_enrich", "test", None, None, _quiet)["batch"]
        return batch

    def run(self) -> str | None:
        """Run a whole micro-batch."""
        batch = self.decide()
        for step in ("validate", "load", "report") if batch else ():
            self.steps.run(step, "test", batch, None, _quiet)
        return batch

    def rows(self, table: DeltaTable) -> DataFrame:
        from etl.adapters.delta import Warehouse

        return Warehouse(self.steps.spark, self.settings.warehouse).read(table)

    def totals(self) -> dict[str, int]:
        with ledger.reading(self.dsn) as book:
            return book.totals()

    def execute(self, query: str, *values: Any) -> list[Any]:
        with postgres.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(query, values)
            return list(cursor.fetchall()) if cursor.description else []

    def changed(self, **settings: Any) -> Site:
        """The same site under other settings."""
        own = self.settings.model_copy(update=settings)
        return Site(replace(self.steps, settings=own), own, self.dsn)

    def later(self, by: timedelta) -> Site:
        """The same site at a later time."""
        return replace(self, steps=replace(self.steps, clock=lambda: datetime.now(UTC) + by))


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


def _quiet(_: str) -> None:
    """Progress a test does not look at."""
