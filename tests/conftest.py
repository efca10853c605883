"""Real parts for the tests: one Postgres server and one Spark for the whole session, a fresh site for each test."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from etl import settings as configuration
from etl.adapters import postgres
from etl.settings import PROJECT
from etl.stack.postgres import embedded_postgres
from tests.support.site import Site

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


@pytest.fixture(scope="session")
def empty_warehouse(spark: SparkSession, session_home: Path) -> Path:
    """All tables, as they are before the first batch: copying them is quicker than making them."""
    from etl.adapters.delta import Warehouse

    Warehouse(spark, session_home / "warehouse").create()
    return session_home / "warehouse"


@pytest.fixture
def site(spark: SparkSession, empty_warehouse: Path, database: str, tmp_path: Path) -> Site:
    """A site with customers and products 1 … 10."""
    from etl.samples import generate_master
    from etl.spark.steps import Steps

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
