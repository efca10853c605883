"""The micro-batch on real Spark: the same as in process, with tasks, one shuffle and workers that may be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from etl.adapters import postgres
from etl.adapters.landing import Slice, scan
from etl.pipeline.decision import gather
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.in_process import InProcess
from etl.pipeline.tasks.plan import BatchPlan
from etl.pipeline.tasks.read import read
from etl.pipeline.tasks.route import route
from etl.pipeline.tasks.wire import Message, TaskLost, WorkerFailed
from etl.samples import OrderConfig, arrive_late_customers, generate_orders
from etl.samples.examples import EXAMPLES
from etl.settings import PROJECT
from etl.spark.executor import SparkExecutor, _route
from tests.support.dirt import DIRT
from tests.support.site import Site, order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of a few kilobytes is split over several tasks, so that there is a shuffle."""
    monkeypatch.setattr("etl.pipeline.microbatch._TASK_BYTES", 2_000)


def test_every_kind_of_dirt_ends_in_quarantine_with_its_reason(site: Site) -> None:
    site.land("dirt.jsonl", *[line for line, _ in DIRT], b"   ")
    assert site.run() == 1
    refused = site.rows("quarantine").to_pylist()
    assert Counter(row["reasons"][0] for row in refused) == Counter(reason for _, reason in DIRT if reason)
    assert set(site.rows("fact")["order_id"].to_pylist()) == {1, 2}
    assert site.inventory().faults == []


@pytest.mark.usefixtures("small_tasks")
def test_generated_waves_through_several_readers_and_routers_end_as_they_do_in_process(site: Site) -> None:
    config = OrderConfig(
        customers=10, products=10, late_customers=5, share_duplicates=0.05, share_conflicts=0.02,
        share_malformed=0.03, share_unknown_customers=0.02, share_late_customers=0.05, share_out_of_range=0.05,
    )  # fmt: skip
    start = datetime.now(UTC) - timedelta(minutes=5)
    first, second = generate_orders(site.landing, config, 2, 1500, 500, start)
    site.run()
    assert site.record(1).counts.lines == 3_000
    assert len({file.path for file in site.record(1).decided.of_table("fact")}) > 1, "several tasks wrote"
    with postgres.connect(site.dsn) as connection:
        arrive_late_customers(connection, config)
    assert site.run() == 2
    tally, counted = first + second, site.inventory()
    assert counted.faults == []
    assert (counted.fact, counted.quarantine) == (tally.fact, tally.quarantine)
    assert (counted.backlog_open, counted.duplicates) == (tally.backlog, tally.duplicates)
    assert site.execute("select count(*) from mart.orders") == [(tally.fact,)]


@pytest.mark.usefixtures("small_tasks")
def test_the_first_payload_wins_whichever_tasks_read_and_route(site: Site) -> None:
    for number in range(4):
        site.land(f"{number}.jsonl", *[order(key, quantity=1 + number) for key in range(1, 60)])
    site.run()
    facts = site.rows("fact")
    assert sorted(facts["order_id"].to_pylist()) == list(range(1, 60))
    assert set(facts["quantity"].to_pylist()) == {1}, "files by age: the first one wins"
    assert site.totals()["quarantine"] == 3 * 59


def test_the_executor_may_change_between_batches(site: Site) -> None:
    site.land("a.jsonl", order(1), order(2, customer_id=77))
    site.run()
    here = replace(site, steps=replace(site.steps, executor=InProcess()))
    here.land("b.jsonl", order(1), order(3))
    assert here.run() == 2
    site.land("c.jsonl", order(3), order(4))
    assert site.run() == 3
    assert site.totals()["duplicates"] == 2
    assert site.inventory().faults == []


def test_the_session_keeps_nothing_of_a_batch(site: Site, spark: SparkSession) -> None:
    """PySpark never forgets an accumulator: one for every batch was a mebibyte for every batch."""
    from pyspark import accumulators

    def kept() -> tuple[int, int]:
        return len(accumulators._accumulatorRegistry), int(spark.sparkContext._jsc.getPersistentRDDs().size())

    def batches(*numbers: int) -> None:
        for number in numbers:
            site.land(f"f{number}.jsonl", order(number), order(100 + number, quantity=-1))
            assert site.run() == number

    batches(1)
    before = kept()
    batches(2, 3, 4, 5)
    assert kept() == before


def test_spark_reads_the_tables_as_any_other_delta_table(site: Site, spark: SparkSession) -> None:
    site.land("a.jsonl", order(1), order(2, customer_id=2))
    site.run()
    folder = site.settings.warehouse / "orders"
    facts = spark.read.format("delta").load(str(folder / "fact"))
    customers = spark.read.format("delta").load(str(folder / "dim_customer"))
    joined = facts.join(customers, "customer_key").select("order_id", customers.customer_id).collect()
    assert sorted((row.order_id, row.customer_id) for row in joined) == [(1, 1), (2, 2)]
    assert facts.where("order_id = 2").count() == 1


def test_a_python_worker_that_is_killed_costs_a_try_and_no_event(
    site: Site, spark: SparkSession, tmp_path: Path
) -> None:
    flag = tmp_path / "killed"
    kills = _KillsAWorker(spark, flag)
    site.land("a.jsonl", order(1), order(2))
    with pytest.raises(Exception, match="Python worker exited unexpectedly"):
        replace(site, steps=replace(site.steps, executor=kills)).run()
    assert flag.exists()
    assert site.run() == 1, "the next try decides the same batch"
    assert site.totals()["fact"] == 2
    assert site.inventory().faults == []


class _KillsAWorker(SparkExecutor):
    """Its tasks do all their work, and then one kills its own Python process before Spark has heard of it."""

    def __init__(self, spark: SparkSession, flag: Path) -> None:
        super().__init__(spark)
        self._session, self._flag = spark, flag

    def run(self, plan: BatchPlan) -> list[Message]:
        rows = self._session.range(0, 1, 1, 1)
        return rows.mapInArrow(partial(_work_and_die, plan, self._flag), "x int").collect()


def _work_and_die(plan: BatchPlan, flag: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        assert list(route(plan, 0, read(plan, 0)))
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
        yield pa.RecordBatch.from_pydict({"x": pa.array([1], pa.int32())})


class _Mortal(SparkExecutor):
    """Its Python workers are killed by a line with the deadly word, while it is read."""

    def _tasks(self, plan: BatchPlan) -> DataFrame:
        readers = self._spark.range(0, plan.readers, 1, plan.readers)
        rows = readers.mapInArrow(partial(_read_and_perhaps_die, plan), wire.SHUFFLED_DDL)
        return rows.repartitionById(plan.routers, "part").mapInArrow(partial(_route, plan), wire.TOLD_DDL)


def _read_and_perhaps_die(plan: BatchPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for reader in batch.column(0).to_pylist():
            for message in read(plan, reader):
                for row in wire.rows_of(message).to_pylist() if message.kind == "rows" else ():
                    if b"kills" in row[wire.RAW] and "poison" not in row[wire.REASONS]:
                        os.kill(os.getpid(), signal.SIGKILL)
                yield wire.to_batch([message])


def test_a_line_that_kills_python_workers_is_found_and_refused(site: Site, spark: SparkSession) -> None:
    mortal = replace(site, steps=replace(site.steps, executor=_Mortal(spark)))
    mortal.land("a.jsonl", *[order(number, note="kills" if number == 23 else "") for number in range(1, 33)])
    assert mortal.run() == 1, "one run, without a hand"
    assert site.rows("fact").num_rows == 31
    (refused,) = site.rows("quarantine").to_pylist()
    assert (refused["line"], refused["reasons"]) == (23, ["poison"])
    assert site.inventory().faults == []


class _Overburdened(SparkExecutor):
    """Its Python workers are killed by reading more than so many rows of one file, and by none of them alone."""

    most = 0

    def _tasks(self, plan: BatchPlan) -> DataFrame:
        readers = self._spark.range(0, plan.readers, 1, plan.readers)
        rows = readers.mapInArrow(partial(_read_up_to, plan, self.most), wire.SHUFFLED_DDL)
        return rows.repartitionById(plan.routers, "part").mapInArrow(partial(_route, plan), wire.TOLD_DDL)


def _read_up_to(plan: BatchPlan, most: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    count = 0
    for batch in batches:
        for reader in batch.column(0).to_pylist():
            for message in read(plan, reader):
                for row in wire.rows_of(message).to_pylist() if message.kind == "rows" else ():
                    count += row[wire.SOURCE] == "heavy.parquet" and "poison" not in row[wire.REASONS]
                if count > most:
                    os.kill(os.getpid(), signal.SIGKILL)
                yield wire.to_batch([message])


def test_a_parquet_file_that_kills_python_workers_only_as_a_whole_is_refused_by_name(
    site: Site, spark: SparkSession
) -> None:
    trips = site.of("trips")
    EXAMPLES["trips"].seed(trips.dsn, trips.settings.var)
    EXAMPLES["trips"].generate(trips.landing, 12, 1, datetime.now(UTC))
    landed = sorted(trips.landing.glob("*.parquet"))
    rows = pa.concat_tables([pq.read_table(path) for path in landed])
    for path in landed:
        path.unlink()
    pq.write_table(rows.slice(0, 4), trips.landing / "other.parquet")
    pq.write_table(rows.slice(4), trips.landing / "heavy.parquet")
    executor = _Overburdened(spark)
    executor.most = rows.num_rows - 5
    assert replace(trips, steps=replace(trips.steps, executor=executor)).run() == 1, "one run, without a hand"
    poison = [row for row in trips.rows("quarantine").to_pylist() if "poison" in row["reasons"]]
    assert [(row["source_file"], row["line"]) for row in poison] == [("heavy.parquet", 0)]
    assert trips.totals()["lines"] == 5
    assert trips.inventory().faults == []


_KILLS_THE_JVM = """
import os, signal, sys
from functools import partial
from pathlib import Path
from etl import settings as configuration
from etl.pipeline import isolate
from etl.pipeline.poison import lines
from etl.pipeline.tasks import wire
from etl.pipeline.tasks.read import read
from etl.pipeline.steps import Steps
from etl.pipeline.tasks.wire import DriverLost
from etl.spark.executor import SparkExecutor, _route
from etl.spark.session import spark_session

isolate.TRIES = lines.SILENT_DEATHS = 1  # every death is a start of Spark

def deadly(plan, jvm, batches):
    for batch in batches:
        for reader in batch.column(0).to_pylist():
            for message in read(plan, reader):
                for row in wire.rows_of(message).to_pylist() if message.kind == "rows" else ():
                    if b"kills" in row[wire.RAW] and "poison" not in row[wire.REASONS]:
                        os.kill(jvm, signal.SIGKILL)
                yield wire.to_batch([message])

class Mortal(SparkExecutor):
    def _tasks(self, plan):
        jvm = self._spark._jvm.java.lang.ProcessHandle.current().pid()
        readers = self._spark.range(0, plan.readers, 1, plan.readers)
        rows = readers.mapInArrow(partial(deadly, plan, jvm), wire.SHUFFLED_DDL)
        return rows.repartitionById(plan.routers, "part").mapInArrow(partial(_route, plan), wire.TOLD_DDL)

home, jars, dsn = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
own = configuration.load(home=home, jars=jars)
with spark_session(own) as spark:
    try:
        Steps(own, dsn, Mortal(spark)).whole("orders", "run", print)
    except DriverLost as error:
        print(error, flush=True)
        os._exit(75)
os._exit(0)
"""


@pytest.mark.slow
def test_a_line_that_kills_the_jvm_is_found_by_the_processes_that_follow(site: Site) -> None:
    site.land("a.jsonl", *[order(number, note="kills" if number == 2 else "") for number in range(1, 4)])
    script = site.settings.home / "mortal.py"
    script.write_text(_KILLS_THE_JVM)
    command = [sys.executable, str(script), str(site.settings.home), str(PROJECT / "var" / "jars"), site.dsn]
    environment, codes = {**os.environ, "PYTHONPATH": str(PROJECT)}, []
    while codes[-1:] != [0] and len(codes) < 8:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, cwd=PROJECT)
        codes.append(done.returncode)
    assert codes == [75, 75, 75, 75, 0], done.stderr[-3_000:]
    assert sorted(site.rows("fact")["order_id"].to_pylist()) == [1, 3]
    (refused,) = site.rows("quarantine").to_pylist()
    assert (refused["line"], refused["reasons"]) == (2, ["poison"])
    assert site.inventory().faults == []


def test_code_that_breaks_in_a_worker_is_told_as_data(site: Site) -> None:
    assert site.decide() is None, "the site is there"
    site.land("a.jsonl", order(1))
    with site.writing() as run:
        assert run.next("test") is not None
        plan = run._plan(run.ledger.get(1), (), ())
        broken = replace(plan, enrich=None)
        with pytest.raises(TaskLost, match="AttributeError at "):
            gather(run.executor.run(replace(broken, slices=(slice_of(site),))))


def slice_of(site: Site) -> Slice:
    (file,) = scan(site.landing, "jsonl")
    return Slice(0, file, 0, file.size)


def test_an_error_of_ours_crosses_from_a_task_as_one_sentence(site: Site) -> None:
    site.land("a.jsonl", order(1))
    site.run()
    site.close()
    (run,) = site.places.claims.glob("*.claims")
    run.write_bytes(b"broken")
    site.land("b.jsonl", order(2))
    with pytest.raises(WorkerFailed, match=r"the claims in .* are damaged or missing"):
        site.decide()


_ON_A_CLUSTER = """
import json, sys
from pathlib import Path
from etl import settings as configuration
from etl.pipeline.steps import Steps
from etl.spark.executor import SparkExecutor
from etl.spark.session import spark_session

home, jars, dsn = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
own = configuration.load(home=home, jars=jars, spark_master="local-cluster[2,1,1024]")
with spark_session(own) as spark:
    steps = Steps(own, dsn, SparkExecutor(spark))
    results = [steps.whole("orders", f"run {number}", lambda _: None) for number in range(2)]
print("result " + json.dumps(results))
"""


@pytest.mark.slow
def test_a_batch_runs_on_two_executors_of_a_local_cluster(site: Site) -> None:
    config = OrderConfig(customers=10, products=10, late_customers=5)
    (tally,) = generate_orders(site.landing, config, 1, 40_000, 10_000, datetime.now(UTC) - timedelta(minutes=5))
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    script = site.settings.home / "on_a_cluster.py"  # PySpark takes a main module without a file for its own tests
    script.write_text(_ON_A_CLUSTER)
    command = [sys.executable, str(script), str(site.settings.home), str(PROJECT / "var" / "jars"), site.dsn]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, cwd=PROJECT)
    lines = [line for line in done.stdout.splitlines() if line.startswith("result ")]
    assert lines, done.stderr[-3_000:]
    first, second = json.loads(lines[-1].removeprefix("result "))
    assert (first["state"], first["lines"], second["batch"]) == ("loaded", tally.lines, None)
    assert site.inventory().faults == []
