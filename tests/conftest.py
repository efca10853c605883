"""Real parts for the tests: one Postgres server and one Spark for the whole session, a fresh site for each test."""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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

    from etl.pipeline.microbatch import Executor


# PySpark ends a process whose main module has no file, and a worker of pytest-xdist is such a process.
sys.modules["__main__"].__dict__.setdefault("__file__", __file__)
hypothesis.settings.register_profile("untimed", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("untimed")

_NUMBERS = itertools.count(1)
_SLOW = tuple(
    Path(__file__).parent / one
    for one in (
        "contract",
        "dags",
        "faults",
        "page",
        "pipeline",
        "property/correlate",
        "property/masters",
        "streams",
        "unit/adapters/great_expectations/test_audit.py",
        "unit/adapters/great_expectations/test_loading.py",
        "unit/adapters/great_expectations/test_suite.py",
        "unit/bench",
        "unit/cli/test_master.py",
        "unit/cli/test_pipeline.py",
        "unit/correlate/adhoc/test_adhoc_optimizer.py",
        "unit/correlate/biclique/test_dense_histories.py",
        "unit/correlate/multiway/test_multiway_executor.py",
        "unit/enrich/front_stage/test_policy.py",
        "unit/enrich/planning/test_cost.py",
        "unit/masters/delta",
        "unit/masters/test_direct_readers.py",
        "unit/masters/test_joins_while_masters_change.py",
        "unit/masters/upkeep/test_maintenance.py",
    )
)
"""Where tests run whole batches, processes, many stores or many histories: `make test-fast` leaves them out."""
_WHOLE = {
    "browser": Path(__file__).parent / "browser",
    "spark": Path(__file__).parent / "spark",
    "stack": Path(__file__).parent / "faults" / "stack",
}
"""Where every test has a mark."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which `-m` leaves out every test: that takes longer than many a test."""
    chosen = config.option.markexpr
    if "not slow" in chosen and collection_path in _SLOW:
        return True
    return any(f"not {mark}" in chosen and collection_path == folder for mark, folder in _WHOLE.items()) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = {path: any(path.is_relative_to(folder) for folder in _SLOW) for path in {item.path for item in items}}
    for item in items:
        if slow[item.path]:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def session_home() -> Iterator[Path]:
    # Not pytest's own folder: when run as root, its rights keep the embedded server's account out.
    home = Path(tempfile.mkdtemp(prefix="frontstage-tests-"))
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(session_home: Path) -> Iterator[str]:
    with embedded_postgres(configuration.load(var=session_home / "server")) as dsn:
        # Its data end with the tests and no test cuts its power: databases come and go without waiting for the disk.
        _on(dsn, "alter system set fsync = off")
        _on(dsn, "select pg_reload_conf()")
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
    with _copied(postgres_server, migrated) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def module_database(postgres_server: str, migrated: str) -> Iterator[str]:
    """A migrated database that the tests of a module share."""
    with _copied(postgres_server, migrated) as dsn:
        yield dsn


@contextmanager
def _copied(server: str, template: str) -> Iterator[str]:
    name = f"test_{next(_NUMBERS)}"
    _on(server, f"create database {name} template {template}")
    yield server.replace("/frontstage?", f"/{name}?")
    _on(server, f"drop database {name} with (force)")


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
def seeded(postgres_server: str, migrated: str) -> str:
    """The name of a database with customers and products 1 … 10 that others are copied from."""
    from etl.samples import generate_master

    _on(postgres_server, f"create database seeded template {migrated}")
    with postgres.connect(postgres_server.replace("/frontstage?", "/seeded?")) as connection:
        generate_master(connection, seed=1, customers=10, products=10)
    return "seeded"


@pytest.fixture
def seeded_database(postgres_server: str, seeded: str) -> Iterator[str]:
    """A database of the test's own with customers and products 1 … 10."""
    with _copied(postgres_server, seeded) as dsn:
        yield dsn


@pytest.fixture
def site(request: pytest.FixtureRequest, seeded_database: str, tmp_path: Path) -> Iterator[Site]:
    """A site with customers and products 1 … 10: on Spark for tests that are marked so, else in this process."""
    from etl.pipeline.tasks.in_process import InProcess

    executor: Executor = InProcess()
    if request.node.get_closest_marker("spark"):
        from etl.spark.executor import SparkExecutor

        executor = SparkExecutor(request.getfixturevalue("spark"))
    made = Site.under(tmp_path, seeded_database, executor)
    yield made
    made.close()
