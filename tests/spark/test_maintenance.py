"""OPTIMIZE and VACUUM on real Spark, asked of the resident driver, between batches that delta-rs commits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from pyspark.sql import SparkSession

from etl.spark.runner.client import StepFailed, StepRefused, answers, maintain
from etl.spark.runner.service import app, listening
from etl.stack.supervision.processes import wait_until
from tests.support.site import Site, order, quiet

pytestmark = pytest.mark.spark


@pytest.fixture
def served(site: Site, spark: SparkSession) -> Iterator[Site]:
    with listening(site.settings.runner_socket) as socket:
        server = uvicorn.Server(uvicorn.Config(app(spark, site.steps), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]})
        thread.start()
        assert wait_until(lambda: answers(site.settings.runner_socket), 60)
        yield site
        server.should_exit = True
        thread.join(timeout=60)
        assert not thread.is_alive()


def no_dsn() -> str:
    raise AssertionError("the client must not start a Spark of its own while the driver answers")


def files(site: Site, table: str) -> list[Path]:
    return sorted((site.settings.warehouse / site.pipeline / table).glob("*.parquet"))


def test_tables_are_compacted_between_batches_and_hold_the_same(
    served: Site, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("etl.pipeline.upkeep.maintenance.MANY_FILES", 3)
    for number in range(1, 5):
        served.land(
            f"f{number}.jsonl", order(number), order(100 + number, quantity=-1), order(200 + number, customer_id=99)
        )
        served.run()
    before = len(files(served, "fact"))
    result = maintain(served.settings, no_dsn, served.pipeline, 30, progress=quiet)
    assert {"fact", "quarantine"} <= set(result["optimized"])
    assert {"fact", "quarantine", "backlog"} <= set(result["vacuumed"])
    assert len(served.table("fact").file_uris()) == 1
    assert len(files(served, "fact")) == before + 1, "readers of older versions still find their files"
    served.execute("insert into master.customers select 99, name, address, nation, region, market_segment, phone, "
                   "account_balance from master.customers where customer_id = 1")  # fmt: skip
    served.land("f5.jsonl", order(5))
    assert served.run() == 5
    assert served.totals()["fact"] == 9, "what waited is still found in the backlog"
    assert served.inventory().faults == []
    again = maintain(served.settings, no_dsn, served.pipeline, 30, progress=quiet)
    assert again["garbage"]["files"] == 0, "what was compacted is no garbage"
    assert "backlog" in again["optimized"], "nobody waits in its files any more"
    assert len(served.table("backlog").file_uris()) == 1
    folder = str(served.settings.warehouse / served.pipeline / "backlog")
    assert spark.read.format("delta").load(folder).count() == served.rows("backlog").num_rows == 4
    spark.sql(f"optimize delta.`{folder}`")
    assert spark.sql(f"describe history delta.`{folder}`").count() >= 5


def test_maintenance_is_refused_while_a_batch_runs_and_when_it_makes_no_sense(served: Site) -> None:
    served.land("a.jsonl", order(1))
    served.run()
    with served.writing(), pytest.raises(StepRefused, match="one writer at a time"):
        maintain(served.settings, no_dsn, served.pipeline, 30, progress=quiet)
    with pytest.raises(StepFailed, match="1 days of history are too few"):
        maintain(served.settings, no_dsn, served.pipeline, 1, progress=quiet)
    with pytest.raises(StepFailed, match="is not a pipeline"):
        maintain(served.settings, no_dsn, "nonsense", 30, progress=quiet)
