"""Ad-hoc queries on Spark: the same batches as in one process, on real workers, one of them killed."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from etl.spark.correlate import SparkCorrelations
from etl.streams import microbatch
from tests.support.correlate_histories import at
from tests.support.killing import Killing
from tests.support.query_site import QuerySite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

QUERIES = {
    "pairs": "select l.id as a, r.id as b from l join r on l.k = r.k where l.x > 20",
    "counts": "select count(*) as n from l join r on l.k = r.k",
    "groups": "select l.k, avg(r.x) as mean, count(*) as n from l join r on l.k = r.k group by l.k",
    "three": "select l.id as a, u.id as c from l join r on l.k = r.k join u on r.x = u.x",
}


def land(site: QuerySite) -> None:
    draw = np.random.default_rng(site.batch)
    for number, stream in enumerate(("l", "r", "u")):
        rows: list[dict[str, Any]] = [
            {"id": 10_000 * site.batch + 1_000 * number + i, "k": int(draw.integers(0, 30)),
             "x": int(draw.integers(0, 40)), "t": at(8 * site.batch + float(draw.integers(0, 12)))}
            for i in range(60)
        ]  # fmt: skip
        site.land(stream, rows[:30], "a")
        site.land(stream, rows[30:], "b")


def check(site: QuerySite) -> None:
    for name in QUERIES:
        expected = site.truth(site.query(name), 1)
        assert site.rows(name) == expected, name
        assert expected, name


@pytest.mark.parametrize("where", ["", "_dispatch", "_join"])
def test_every_query_has_what_it_has_alone_also_when_a_worker_is_killed(
    tmp_path: Path, database: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(microbatch, "_TASK_BYTES", 1000)  # several readers and tasks
    flag = tmp_path / "killed"
    executor = Killing(spark, flag, where) if where else SparkCorrelations(spark)
    site = QuerySite.under(tmp_path, database, executor)
    for name, sql in QUERIES.items():
        site.create(name, sql, "20s")
    for _ in range(3):
        land(site)
        with suppress(Exception):  # a local Spark does not repeat tasks: the run does
            site.run()
        while site.run()["batch"] is not None:
            pass
    assert os.path.exists(flag) == bool(where)  # noqa: PTH110 - a worker makes it
    check(site)
