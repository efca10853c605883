"""Correlations on Spark: the same batches as in one process, on real workers."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from etl.streams import microbatch
from tests.support.correlate_histories import EPOCH
from tests.support.stream_site import StreamSite

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def tuples(seed: int, first: int, count: int) -> list[dict[str, Any]]:
    draw = np.random.default_rng(seed)
    return [
        {"id": first + i, "k": int(draw.integers(0, 40)), "x": int(draw.integers(0, 400)),
         "t": EPOCH + dt.timedelta(seconds=(first % 1000) / 10 + float(draw.integers(0, 60)))}
        for i in range(count)
    ]  # fmt: skip


def pairs(left: list[dict[str, Any]], right: list[dict[str, Any]], meets: Any) -> Counter[tuple[int, int]]:
    window = dt.timedelta(seconds=30)
    return Counter((a["id"], b["id"]) for a in left for b in right if abs(a["t"] - b["t"]) <= window and meets(a, b))


def test_equality_band_and_groups_in_one_job(
    tmp_path: Path, database: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from etl.spark.correlate import SparkCorrelations

    monkeypatch.setattr(microbatch, "_TASK_BYTES", 1000)  # several readers and tasks
    site = StreamSite.under(tmp_path, database, SparkCorrelations(spark))
    wide = {"within": "30 seconds", "lateness": "1 hour"}
    site.declare("equal", "select l.id as a, r.id as b from l join r on l.k = r.k", **wide)
    site.declare("band", "select l.id as a, r.id as b from l join r on abs(l.x - r.x) <= 3", **wide)
    three = "select l.k, count(*) as n, sum(u.x) as x, avg(r.x) as mean from l join r on l.k = r.k join u on r.k = u.k"
    site.declare("three", f"{three} group by l.k", **wide)
    seen: dict[str, list[dict[str, Any]]] = {"l": [], "r": [], "u": []}
    for batch in range(3):
        for number, stream in enumerate(seen):
            rows = tuples(10 * batch + number, 1000 * number + 100 * batch, 60)
            seen[stream] += rows
            site.land(stream, f"{batch}a", rows[:30])
            site.land(stream, f"{batch}b", rows[30:])
        assert site.run()["state"] == "loaded"
    for name, meets in (("equal", lambda a, b: a["k"] == b["k"]), ("band", lambda a, b: abs(a["x"] - b["x"]) <= 3)):
        found = Counter((row["a"], row["b"]) for row in site.table(name).to_pylist())
        expected = pairs(seen["l"], seen["r"], meets)
        assert found == expected, name
        assert expected, "the streams meet"
    assert groups(seen), "the streams meet"
    assert site.rows("select k, n, x from correlation.three order by k") == groups(seen)


def groups(seen: dict[str, list[dict[str, Any]]]) -> list[tuple[int, int, int]]:
    window = dt.timedelta(seconds=30)
    count, total = Counter[int](), Counter[int]()
    for a in seen["l"]:
        for b in seen["r"]:
            if a["k"] != b["k"] or abs(a["t"] - b["t"]) > window:
                continue
            for c in seen["u"]:
                if c["k"] == b["k"] and abs(a["t"] - c["t"]) <= window and abs(b["t"] - c["t"]) <= window:
                    count[a["k"]] += 1
                    total[a["k"]] += c["x"]
    return sorted((key, n, total[key]) for key, n in count.items())
