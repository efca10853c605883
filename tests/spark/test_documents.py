"""Correlations of documents on Spark: creators, assigners and joiners on real workers, one of them killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from etl.settings import PROJECT
from etl.spark.correlate import SparkCorrelations
from etl.streams import microbatch
from tests.support.document_site import DocumentSite, seconds
from tests.support.killing import Killing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def documents(batch: int, count: int = 300) -> list[dict[str, Any]]:
    """Users and hosts that share, and now and then conflict."""
    draw = np.random.default_rng(batch)
    return [
        {"n": {"id": 1000 * batch + i}, "time": seconds(20 * batch + float(draw.random()) * 25),
         "User": int(draw.integers(0, 40)), **({"Host": int(draw.integers(0, 9))} if draw.random() < 0.5 else {})}
        for i in range(count)
    ]  # fmt: skip


def by_window(site: DocumentSite, correlation: str) -> Counter[int]:
    times = site.table(correlation).column("left_time").to_pylist()
    return Counter(int(time.timestamp()) // 10 for time in times)


@pytest.mark.parametrize("where", ["_dispatch", "_join"])
def test_pairs_of_documents_equal_the_nested_loop_when_a_worker_is_killed(
    tmp_path: Path, database: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(microbatch, "_TASK_BYTES", 1000)  # several readers and tasks
    site = DocumentSite.under(tmp_path, database, Killing(spark, tmp_path / "killed", where))
    window = {"window": "10 seconds"}
    options = {"stream": "logs", "partitions": 5, "theta": 0.0, **window}
    site.declare("links", lateness="5 seconds", documents=options)
    site.declare("few", lateness="5 seconds", documents={**options, "max_pairs": 40})
    past = [documents(batch) for batch in range(3)]
    for number, batch in enumerate(past):
        site.land(f"{number}a", [*batch[:150], b"{"])
        site.land(f"{number}b", batch[150:])
        with suppress(Exception):  # a task has one try here, on a cluster it has more
            site.run()
        while site.run()["batch"] is not None:
            pass
    assert (tmp_path / "killed").exists()
    assert site.pairs("links") == site.truth(past, window, lateness_s=5)
    assert site.pairs("links"), "documents meet"
    found, few = by_window(site, "links"), by_window(site, "few")
    assert few == {window: min(pairs, 40) for window, pairs in found.items()}
    assert site.pairs("few") < site.pairs("links")
    assert site.quarantine("logs").num_rows == 3


MANY = 100_000
_KILLED_DRIVER = """
import os, signal, sys
from functools import partial
from pathlib import Path
from etl.spark.correlate import SparkCorrelations
from etl.spark.session import spark_session
from etl.streams.tasks.in_process import InProcess
from tests.support.document_site import DocumentSite
from tests.support.stream_site import StreamSite

class Deadly(SparkCorrelations):
    def tasks(self, work):
        return partial(_kills, os.getpid(), work)

def _kills(driver, work, batches):
    for batch in work(batches):
        if work.func.__name__ == "_join":
            os.kill(driver, signal.SIGKILL)
        yield batch

if __name__ == "__main__":
    home, dsn = Path(sys.argv[1]), sys.argv[2]
    own = StreamSite.under(home, dsn, InProcess()).settings
    with spark_session(own) as spark:
        DocumentSite.under(home, dsn, Deadly(spark)).run()
"""


def couples() -> list[dict[str, Any]]:
    """Every other document shares a ticket with the one before; every fifth couple conflicts in its host."""
    return [
        {"n": {"id": i}, "time": seconds(i / MANY), "ticket": i // 2, **({"host": i} if i // 2 % 5 == 0 else {})}
        for i in range(MANY)
    ]


def test_a_driver_killed_in_the_middle_of_100_000_documents_is_followed_by_another_and_every_pair_is_there_once(
    tmp_path: Path, database: str, spark: SparkSession
) -> None:
    site = DocumentSite.under(tmp_path, database, SparkCorrelations(spark))
    site.declare("links", documents={"stream": "logs", "window": "1 hour", "partitions": 4})
    rows = couples()
    site.land("a", rows[: MANY // 2])
    site.land("b", rows[MANY // 2 :])
    script = tmp_path / "killed.py"
    script.write_text(_KILLED_DRIVER)
    command = [sys.executable, str(script), str(tmp_path), database]
    done = subprocess.run(command, cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)}, timeout=1200)
    assert done.returncode == -signal.SIGKILL
    assert site.steps.report(None)["state"] == "reading", "it was killed in the middle"
    while site.run()["batch"] is not None:
        pass
    found = site.pairs("links")
    assert set(found) == {(i, i + 1) for i in range(0, MANY, 2) if i // 2 % 5}
    assert set(found.values()) == {1}
