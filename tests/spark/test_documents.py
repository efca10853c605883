"""Correlations of documents on Spark: creators, assigners and joiners on real workers, one of them killed."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from etl.streams import microbatch
from tests.spark.test_correlations import Killing
from tests.support.document_site import DocumentSite, seconds

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


@pytest.mark.parametrize("where", ["_dispatch", "_join"])
def test_pairs_of_documents_equal_the_nested_loop_when_a_worker_is_killed(
    tmp_path: Path, database: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(microbatch, "_TASK_BYTES", 1000)  # several readers and tasks
    site = DocumentSite.under(tmp_path, database, Killing(spark, tmp_path / "killed", where))
    window = {"window": "10 seconds"}
    options = {"stream": "logs", "partitions": 5, "theta": 0.0, **window}
    site.declare("links", lateness="5 seconds", documents=options)
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
    assert site.quarantine("logs").num_rows == 3
