"""Real parts for the tests: one Postgres server and one Spark for the whole session, a fresh site for each test."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from etl import settings as configuration
from etl.adapters import ledger, postgres
from etl.settings import PROJECT, Settings
from etl.stack.postgres import embedded_postgres

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from etl.spark.steps import Steps
    from warehouse.star import DeltaTable

hypothesis.settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("untimed")

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def session_home() -> Iterator[Path]:
    # Not pytest's own folder: when run as root, its rights keep the embedded server's account out.
    home = Path(tempfile.mkdtemp(prefix="frontstage-tests-"))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(session_home: Path) -> Iterator[str]:
    with embedded_postgres(configuration.load(var=session_home / "server")) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def migrated(postgres_server: str) -> str:
    """The name of a migrated database that others are copied from."""
    _on(postgres_server, "create database migrated")
    postgres.migrate(postgres_server.replace("/frontstage?", "/migrated?"))
    return "migrated"


@pytest.fixture
def database(postgres_server: str, migrated: str) -> Iterator[str]:
    """A migrated database of the test's own."""
    name = f"test_{next(_NUMBERS)}"
    _on(postgres_server, f"create database {name} template {migrated}")
    yield postgres_server.replace("/frontstage?", f"/{name}?")
    _on(postgres_server, f"drop database {name} with (force)")


def _on(server: str, command: str) -> None:
    with postgres.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(command)


@pytest.fixture(scope="session")
def spark(session_home: Path) -> Iterator[SparkSession]:
    from etl.spark.session import spark_session

    own = configuration.load(var=session_home / "spark", jars=PROJECT / "var" / "jars")
    with spark_session(own, app_name="tests") as session:
        yield session


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


@pytest.fixture(scope="session")
def empty_warehouse(spark: SparkSession, session_home: Path) -> Path:
    """All tables, as they are before the first batch: copying them is quicker than making them."""
    from etl.adapters.delta import Warehouse

    Warehouse(spark, session_home / "warehouse").create()
    return session_home / "warehouse"


@pytest.fixture
def site(spark: SparkSession, empty_warehouse: Path, database: str, tmp_path: Path) -> Site:
    """A site with customers and products 1 … 10."""
    from etl.spark.steps import Steps
    from etl.stack.generate import generate_master

    own = configuration.load(
        home=tmp_path,
        var=tmp_path / "var",
        landing=tmp_path / "landing",
        archive=tmp_path / "archive",
        warehouse=tmp_path / "warehouse",
    )
    with postgres.connect(database) as connection:
        generate_master(connection, seed=1, customers=10, products=10)
    shutil.copytree(empty_warehouse, own.warehouse)
    steps = Steps(spark, own, database)
    steps.prepare()
    return Site(steps, own, database)


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
