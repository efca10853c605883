"""*Before*: the pipeline as it was, run by its own code on one resident Spark session.

This module runs with the work tree of that commit first on Python's path (`before_tree`): every `etl.*` imported here
is the old engine, with its own settings, steps and schema, under the names they had. Each step is timed as Airflow
would call it:

    ingest_enrich ─▶ validate ─▶ load ─▶ report
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

_SEED, _PRODUCTS = 1, 20_000
_AFTER = ("validate", "load", "report")


def _quiet(_line: str) -> None:
    """Progress that nobody reads."""


@dataclass(frozen=True, slots=True)
class BeforeSession:
    """The old session, with the old settings."""

    spark: SparkSession
    task: Task

    def open(self, site: Site) -> Before:
        """A fresh warehouse; master rows in Postgres, published as pages when the first batch asks for them."""
        from etl.spark.steps import Steps
        from etl.stack.generate import generate_master  # type: ignore[import-not-found,unused-ignore]

        from etl.adapters import postgres

        folder = Path(self.task.folder) / site.name
        shutil.rmtree(folder, ignore_errors=True)
        dsn, settings = self.task.dsns[site.name], _settings(self.task, folder)
        steps = Steps(self.spark, settings, dsn)
        steps.prepare()
        with postgres.connect(dsn) as connection:
            generate_master(connection, _SEED, site.masters, _PRODUCTS)
        settings.landing.mkdir(parents=True, exist_ok=True)
        return Before(steps, settings.landing, settings.warehouse)


@dataclass(slots=True)
class Before:
    """The old steps on one warehouse."""

    steps: Any
    landing: Path
    tables: Path
    _runs: int = field(default=0)

    def land(self, files: Sequence[Path]) -> None:
        for file in files:
            os.link(file, self.landing / file.name)

    def run(self, *, checkpoint: bool) -> dict[str, float]:
        assert checkpoint, "the old pipeline has no way past its gate"
        self._runs += 1
        phases: dict[str, float] = {}
        batch: str | None = None
        for step in ("ingest_enrich", *_AFTER):
            began = time.perf_counter()
            batch = self.steps.run(step, f"bench-{self._runs}", batch, None, _quiet)["batch"]
            phases[step] = time.perf_counter() - began
            assert batch is not None, "the landed files make a batch"
        return phases

    def counts(self) -> Kinds:
        found = self.steps.count_orders()
        return {
            "fact": found["fact"],
            "rejects": found["quarantine"],
            "backlog": found["backlog_open"],
            "duplicates": found["duplicates"],
        }

    def expected(self, kinds: Kinds) -> Kinds:
        return with_backlog(kinds)

    def close(self) -> None:
        """The session is stopped by who started it."""


def _settings(task: Task, folder: Path) -> Any:
    """The old defaults, with everything written below `folder`."""
    from etl import settings as configuration

    names = ("landing", "archive", "warehouse", "master_pages", "master_delta")
    return configuration.load(var=folder, jars=task.jars, **{name: folder / name for name in names})


@contextmanager
def session(task: Task) -> Iterator[BeforeSession]:
    from etl.spark.session import spark_session

    with spark_session(_settings(task, Path(task.folder))) as spark:
        yield BeforeSession(spark, task)
