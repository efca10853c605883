"""*Ours*: the pipeline of this tree, one whole micro-batch at a time, in process, on one resident Spark session.

    land    hard links into the landing folder           run_batch   fix input … decide, audit, publish, report
    open    schema, masters in Postgres, pages           count_rows  an audit of the tables themselves

The four functions `start`, `prepare`, `run_batch` and `count_rows` are all that knows how the core is called.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.pipeline.orders import Kinds, with_backlog
from bench.pipeline.plan import Site, Task
from etl.adapters import ledger, postgres
from etl.contract.load import load as load_pipeline
from etl.errors import TerminalError
from etl.pipeline.inspection import inventory
from etl.pipeline.prepare import places_of
from etl.pipeline.steps import Steps
from etl.samples import generate_master
from etl.settings import Settings, load
from etl.spark.executor import SparkExecutor
from etl.spark.session import start as spark_session_of

_SEED, _PRODUCTS = 1, 20_000
_PIPELINE = "orders"


@dataclass(frozen=True, slots=True)
class Core:
    """The executor on a Spark session that stays."""

    spark: SparkSession
    jars: str

    def close(self) -> None:
        self.spark.stop()


@dataclass(slots=True)
class Warehouse:
    """The steps on one warehouse."""

    steps: Steps
    settings: Settings
    dsn: str = field(repr=False)
    runs: int = 0


def start(task: Task) -> Core:
    """The core on a Spark session of its own; it has `spark` and is closed at the end."""
    return Core(spark_session_of(_settings(Path(task.folder), task.jars), app_name="bench-ours"), task.jars)


def prepare(core: Core, site: Site, folder: Path, dsn: str) -> Warehouse:
    """A fresh warehouse below `folder` with masters in Postgres: what `run_batch` works on."""
    settings = _settings(folder, core.jars, pipelines=_without_shedding(folder))
    steps = Steps(settings, dsn, SparkExecutor(core.spark))
    steps.prepare()
    with postgres.connect(dsn) as connection:
        generate_master(connection, _SEED, site.masters, _PRODUCTS)
    return Warehouse(steps, settings, dsn)


def run_batch(warehouse: Warehouse) -> dict[str, float]:
    """One whole micro-batch as Airflow's two tasks call it; the seconds of its steps, which the ledger keeps."""
    warehouse.runs += 1
    began = time.perf_counter()
    result = warehouse.steps.run("micro_batch", _PIPELINE, f"bench-{warehouse.runs}", None, None, _quiet)
    if result["batch"] is None:
        return {"ingest": time.perf_counter() - began}
    reporting = time.perf_counter()
    warehouse.steps.run("report", _PIPELINE, "", result["batch"], None, _quiet)
    reported = time.perf_counter() - reporting
    with ledger.reading(warehouse.dsn, _PIPELINE) as book:
        return {**book.get(result["batch"]).seconds, "report": reported}


def count_rows(warehouse: Warehouse) -> Kinds:
    """Rows in the tables: fact, rejects, backlog, duplicates."""
    own = warehouse.settings
    pipeline = load_pipeline(own.pipelines / f"{_PIPELINE}.toml", own.var)
    with ledger.reading(warehouse.dsn, _PIPELINE) as book:
        counted = inventory.take(pipeline, places_of(own, pipeline), book, warehouse.dsn)
    if counted.faults:
        raise WrongCount("; ".join(counted.faults))
    return {
        "fact": counted.fact,
        "rejects": counted.quarantine,
        "backlog": counted.backlog_open,
        "duplicates": counted.duplicates,
    }


class WrongCount(TerminalError):
    """The tables do not add up."""


def _settings(folder: Path, jars: str, **more: Any) -> Settings:
    places = {name: folder / name for name in ("archive", "warehouse", "master_pages")}
    return load(var=folder, jars=jars, **places, **more)


def _without_shedding(folder: Path) -> Path:
    """The pipeline as it is shipped, but that a batch takes all that has landed: others have no deadline either."""
    declared = (load().pipelines / f"{_PIPELINE}.toml").read_text()
    own = folder / "pipelines"
    own.mkdir(parents=True)
    (own / f"{_PIPELINE}.toml").write_text(declared.replace("grace =", 'shedding = "none"\ngrace =', 1))
    return own


def _quiet(_line: str) -> None:
    """Progress that nobody reads."""


@dataclass(frozen=True, slots=True)
class OursSession:
    """The core, resident."""

    core: Core
    task: Task

    @property
    def spark(self) -> SparkSession:
        spark: SparkSession = self.core.spark
        return spark

    def open(self, site: Site) -> Ours:
        folder = Path(self.task.folder) / site.name
        shutil.rmtree(folder, ignore_errors=True)
        landing = folder / "landing" / "orders"
        landing.mkdir(parents=True)
        return Ours(prepare(self.core, site, folder, self.task.dsns[site.name]), landing, folder / "warehouse")


@dataclass(slots=True)
class Ours:
    """One warehouse."""

    warehouse: Any = field(repr=False)
    landing: Path
    tables: Path

    def land(self, files: Sequence[Path]) -> None:
        for file in files:
            os.link(file, self.landing / file.name)

    def run(self, *, checkpoint: bool) -> dict[str, float]:
        assert checkpoint, "every batch is audited"
        return run_batch(self.warehouse)

    def counts(self) -> Kinds:
        return count_rows(self.warehouse)

    def expected(self, kinds: Kinds) -> Kinds:
        return with_backlog(kinds)

    def close(self) -> None:
        """The core is closed by who started it."""


@contextmanager
def session(task: Task) -> Iterator[OursSession]:
    core = start(task)
    try:
        yield OursSession(core, task)
    finally:
        core.close()
