"""The resident driver and its client, over a real Unix socket."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvicorn

from etl.adapters import ledger
from etl.pipeline.steps import Steps
from etl.spark.correlate import SparkCorrelations
from etl.spark.executor import SparkExecutor
from etl.spark.runner.client import (
    StepFailed,
    StepRefused,
    answers,
    maintain_correlations,
    run_correlations,
    run_step,
)
from etl.spark.runner.service import app, listening
from etl.stack.supervision.processes import wait_until
from tests.support.correlate_histories import EPOCH
from tests.support.site import Site, order
from tests.support.stream_site import StreamSite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@contextmanager
def serving(steps: Steps, spark: SparkSession) -> Iterator[None]:
    with listening(steps.settings.runner_socket) as socket:
        server = uvicorn.Server(uvicorn.Config(app(spark, steps), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        assert wait_until(lambda: answers(steps.settings.runner_socket), 60)
        yield
        server.should_exit = True
        thread.join(timeout=60)
        assert not thread.is_alive()


@pytest.fixture
def served(site: Site, spark: SparkSession) -> Iterator[Site]:
    with serving(site.steps, spark):
        yield site


def no_dsn() -> str:
    raise AssertionError("the client must not start a Spark of its own while the driver answers")


def test_the_driver_tells_progress_result_and_errors_and_only_its_owner_can_ask(served: Site) -> None:
    mode = served.settings.runner_socket.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    served.land("a.jsonl", order(1))
    own, said = served.settings, list[str]()
    result = run_step(own, no_dsn, "ingest", "orders", "run", progress=said.append)
    assert result["batch"] == 1
    assert "publishing master customer" in said[0]
    assert "1 lines read; 1 accepted" in said[-1]
    with pytest.raises(StepFailed, match="batch 99 of orders is not in the ledger"):
        run_step(own, no_dsn, "audit", "orders", "run", batch=99, progress=said.append)
    with pytest.raises(StepFailed, match="'sales' is not a pipeline"):
        run_step(own, no_dsn, "ingest", "sales", "run", progress=said.append)
    with ledger.writing(served.dsn, "orders", "somebody else"), pytest.raises(StepRefused, match="somebody else"):
        run_step(own, no_dsn, "audit", "orders", "run", batch=1, progress=said.append)
    for step in ("audit", "publish", "report"):
        result = run_step(own, no_dsn, step, "orders", "run", batch=1, progress=said.append)
    assert result["state"] == "loaded"
    assert served.totals()["fact"] == 1


def test_the_driver_runs_correlations_and_looks_after_them(tmp_path: Path, database: str, spark: SparkSession) -> None:
    site = StreamSite.under(tmp_path, database, SparkCorrelations(spark))
    site.declare("pairs", "select l.id as a, r.id as b from l join r on l.k = r.k")
    site.land("l", "1", [{"id": 1, "k": 7, "t": EPOCH}])
    site.land("r", "1", [{"id": 2, "k": 7, "t": EPOCH}])
    said, steps = list[str](), Steps(site.settings, database, SparkExecutor(spark))
    with serving(steps, spark):
        batch = run_correlations(site.settings, no_dsn, "ingest", "run", progress=said.append)["batch"]
        for step in ("correlate", "load", "report"):
            told = run_correlations(site.settings, no_dsn, step, "run", batch=batch, progress=said.append)  # type: ignore[arg-type]
        assert told["state"] == "loaded"
        assert "batch 1 is loaded" in said
        assert run_correlations(site.settings, no_dsn, "micro_batch", "run", progress=said.append) == {"batch": None}
        with pytest.raises(StepFailed, match="batch 99 of correlations is not in the ledger"):
            run_correlations(site.settings, no_dsn, "load", "run", batch=99, progress=said.append)
        assert maintain_correlations(site.settings, no_dsn, 30, progress=said.append)["vacuumed"]
    assert site.table("pairs").to_pylist() == [{"a": 1, "b": 2}]


def test_without_a_driver_the_client_says_so(site: Site) -> None:
    assert not answers(site.settings.runner_socket)
