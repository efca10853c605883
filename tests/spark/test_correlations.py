"""Correlations on Spark: the same batches as in one process, on real workers."""

from __future__ import annotations

import datetime as dt
import os
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
from tests.support.correlate_histories import EPOCH
from tests.support.killing import Killing
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
    monkeypatch.setattr(microbatch, "_TASK_BYTES", 1000)  # several readers and tasks
    site = StreamSite.under(tmp_path, database, SparkCorrelations(spark))
    wide = {"within": "30 seconds", "lateness": "1 hour"}
    site.declare("equal", "select l.id as a, r.id as b from l join r on l.k = r.k", **wide)
    site.declare("band", "select l.id as a, r.id as b from l join r on abs(l.x - r.x) <= 3", **wide)
    three = "select l.k, count(*) as n, sum(u.x) as x, avg(r.x) as mean from l join r on l.k = r.k join u on r.k = u.k"
    site.declare("three", f"{three} group by l.k", **wide)
    seen: dict[str, list[dict[str, Any]]] = {"l": [], "r": [], "u": []}
    for batch in range(3):
        land_batches(site, seen, batch)
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


def land_batches(site: StreamSite, seen: dict[str, list[dict[str, Any]]], batch: int) -> None:
    for number, stream in enumerate(seen):
        rows = tuples(10 * batch + number, 1000 * number + 100 * batch, 60)
        seen[stream] += rows
        site.land(stream, f"{batch}a", rows[:30])
        site.land(stream, f"{batch}b", rows[30:])


@pytest.mark.parametrize("where", ["_dispatch", "_join"])
def test_a_worker_that_is_killed_costs_a_try_and_no_pair(
    tmp_path: Path, database: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(microbatch, "_TASK_BYTES", 1000)
    site = StreamSite.under(tmp_path, database, Killing(spark, tmp_path / "killed", where))
    site.declare("equal", "select l.id as a, r.id as b from l join r on l.k = r.k", within="30s", lateness="1h")
    seen: dict[str, list[dict[str, Any]]] = {"l": [], "r": []}
    for batch in range(2):
        land_batches(site, seen, batch)
        with suppress(Exception):  # a local Spark does not repeat tasks: the run does
            site.run()
        while site.run()["batch"] is not None:
            pass
    assert (tmp_path / "killed").exists()
    found = Counter((row["a"], row["b"]) for row in site.table("equal").to_pylist())
    assert found == pairs(seen["l"], seen["r"], lambda a, b: a["k"] == b["k"])


_ON_A_CLUSTER = """
import sys
from pathlib import Path
from etl import settings as configuration
from etl.streams import microbatch
from etl.streams.steps import CorrelationSteps
from etl.spark.session import spark_session
from tests.support.killing import Killing
from tests.support.correlate_histories import EPOCH

if __name__ == "__main__":
    home, jars, dsn = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    microbatch._TASK_BYTES = 1000
    own = configuration.load(home=home, jars=jars, streams=home / "streams", correlations=home / "correlations",
                             spark_master="local-cluster[2,1,1024]")
    with spark_session(own) as spark:
        for number in range(2):
            executor = Killing(spark, home / f"killed-{number}", "_dispatch" if number else "_join")
            steps = CorrelationSteps(own, dsn, executor, clock=lambda: EPOCH.replace(day=2))
            for name in sorted((home / "waiting").glob(f"*-{number}?.jsonl")):
                stream = name.name.partition("-")[0]
                name.rename(own.var / "landing" / stream / name.name)
            assert steps.run("micro_batch", "cluster", None, print)["state"] == "loaded"
            assert (home / f"killed-{number}").exists()
"""


@pytest.mark.slow
def test_a_cluster_repeats_the_task_of_a_killed_worker_and_every_pair_is_there_once(
    tmp_path: Path, database: str
) -> None:
    from etl.streams.tasks.in_process import InProcess

    site = StreamSite.under(tmp_path, database, InProcess())
    site.declare("equal", "select l.id as a, r.id as b from l join r on l.k = r.k", within="30s", lateness="1h")
    seen: dict[str, list[dict[str, Any]]] = {"l": [], "r": []}
    (tmp_path / "waiting").mkdir()
    for batch in range(2):
        land_batches(site, seen, batch)
        for stream in seen:
            for half in "ab":
                landed = site.settings.var / "landing" / stream / f"{batch}{half}.jsonl"
                landed.rename(tmp_path / "waiting" / f"{stream}-{batch}{half}.jsonl")
    script = tmp_path / "cluster.py"
    script.write_text(_ON_A_CLUSTER)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), str(site.settings.jars), database],
        cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)}, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = Counter((row["a"], row["b"]) for row in site.table("equal").to_pylist())
    assert found == pairs(seen["l"], seen["r"], lambda a, b: a["k"] == b["k"])
