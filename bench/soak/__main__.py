"""`python -m bench.soak`: a stack of its own, half an hour of load, and every aim on a line."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from bench.measured import QUICK, RESULTS, aim_line, exit_code, keep, machine, progress
from bench.soak.aims import aims
from bench.soak.load import Load, seed
from bench.soak.samples import Sampler
from etl.adapters import ledger, postgres
from etl.errors import TransientError
from etl.settings import PROJECT, Settings, load
from etl.stack import postgres as stack_postgres
from etl.stack.airflow.client import Airflow
from etl.stack.stack import Stack
from etl.stack.supervision.processes import wait_until

PIPELINE, UPKEEP = "orders", "maintenance"
ROUNDS, LEAST_MINUTES = 10, 20.0
WARM_S, SETTLED_S = 300.0, 900.0


class Unsettled(TransientError):
    """Something did not come about in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(what, seconds)
        self.what, self.seconds = what, seconds

    def __str__(self) -> str:
        return f"after {self.seconds:.0f} s {self.what}"


class Work(Protocol):
    """Something done in a thread until it is over."""

    def run(self, over: threading.Event) -> None: ...


@dataclass(frozen=True, slots=True)
class Soak:
    """A running stack, what lands in it and who looks."""

    settings: Settings
    dsn: str
    airflow: Airflow
    load: Load
    sampler: Sampler

    def run(self, minutes: float) -> dict[str, Any]:
        """Land and maintain until time is up, then wait until nothing is left; gives the result."""
        self.load.warm_up()
        self._wait(self.all_read, WARM_S, "the first orders are not in the mart")
        progress("the first orders are in the mart")
        over = threading.Event()
        with beside(self.sampler, over):
            landed = threading.Event()
            with beside(self.load, landed):
                self._maintain(60 * minutes, landed)
            ended = time.monotonic()
            self._wait(self.is_settled, SETTLED_S, "orders still wait, or runs are under way")
            settled_s = time.monotonic() - ended
        return self._result(minutes, settled_s)

    def all_read(self) -> bool:
        return bool(self.totals().get("lines", 0) >= self.load.landed.lines)

    def is_settled(self) -> bool:
        return self.all_read() and self.totals()["backlog_open"] == 0 and not self.runs(("queued", "running"))

    def totals(self) -> dict[str, int]:
        with ledger.reading(self.dsn, PIPELINE) as book:
            return book.totals()

    def runs(self, states: Sequence[str]) -> Counter[str]:
        """How many runs of each DAG are in one of these states."""
        where = stack_postgres.dsn(self.settings, stack_postgres.AIRFLOW)
        query = "select dag_id, count(*) from dag_run where state = any(%s) group by 1"
        with postgres.connect(where) as connection, connection.cursor() as cursor:
            cursor.execute(query, (list(states),))
            return Counter(dict(cursor.fetchall()))

    def _maintain(self, seconds: float, ended: threading.Event) -> None:
        """A run of the maintenance DAG every so often, one at a time, until time is up or the load has ended."""
        until, every_s = time.monotonic() + seconds, max(seconds, 60 * LEAST_MINUTES) / ROUNDS
        while (left := until - time.monotonic()) > 0 and not ended.wait(min(every_s, left)):
            if left > every_s:
                self.airflow.trigger(UPKEEP, {"days": 30})
            progress(f"{self.runs(('success',))[PIPELINE]} batches, {max(0.0, left - every_s) / 60:.1f} minutes to go")

    def _wait(self, met: Callable[[], bool], seconds: float, otherwise: str) -> None:
        if not wait_until(met, seconds, every_s=0.5):
            raise Unsettled(otherwise, seconds)

    def _result(self, minutes: float, settled_s: float) -> dict[str, Any]:
        totals, samples, done = self.totals(), self.sampler.samples, self.runs(("success",))
        with ledger.reading(self.dsn, PIPELINE) as book:
            last = book.last()
        row = {
            "minutes": minutes,
            "rate_per_s": self.load.rate_per_s,
            "batches": 0 if last is None else last.batch,
            "maintained": done[UPKEEP],
            "lines": totals["lines"],
            "backlog": max((one["backlog"] for one in samples), default=0.0),
            "settled_s": round(settled_s, 1),
            **self.fresh(),
        }
        missing, failed = self.load.landed.lines - totals["lines"], self.runs(("failed",)).total()
        found = aims(samples, totals["backlog_open"], failed, missing, row)
        return {
            "machine": machine(),
            "rows": [row],
            "runs": dict(done),
            "batches": self.batches(),
            "samples": samples,
            "aims": found,
        }

    def batches(self) -> list[dict[str, Any]]:
        """When each batch began and ended, and what it read."""
        with postgres.connect(self.dsn) as connection, connection.cursor() as cursor:
            cursor.execute(
                "select batch, extract(epoch from started_at)::float, extract(epoch from loaded_at)::float, "
                "(counts ->> 'lines')::int, (freshness ->> 'p95')::float from etl.batch where pipeline = %s order by 1",
                (PIPELINE,),
            )
            names = ("batch", "started_at", "loaded_at", "lines", "fresh_p95_s")
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def fresh(self) -> dict[str, float]:
        """How old orders were when they came into the mart, those that had waited among them."""
        loaded = {one["batch"]: one["loaded_at"] for one in self.batches()}
        at = np.full(max(loaded) + 1, np.nan)
        at[list(loaded)] = list(loaded.values())
        fact = DeltaTable(str(self.settings.warehouse / PIPELINE / "fact"))
        rows = fact.to_pyarrow_table(columns=["batch", "landed_at"]).combine_chunks()
        ages = at[rows["batch"].to_numpy()] - rows["landed_at"].cast(pa.int64()).to_numpy() / 1e6
        p50, p95 = np.percentile(ages[rows["batch"].to_numpy() > 1], [50, 95])  # the first batch published the masters
        return {"p50": round(float(p50), 3), "p95": round(float(p95), 3)}


@contextmanager
def beside(work: Work, over: threading.Event) -> Iterator[None]:
    """Somebody works in a thread for as long as the block lasts; an error of theirs ends the block, and is ours."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work.run(over)
        except BaseException as error:
            errors.append(error)
            over.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    except BaseException as failure:
        over.set()
        thread.join()
        if errors:
            raise errors[0] from failure
        raise
    over.set()
    thread.join()
    if errors:
        raise errors[0]


def settings_in(home: Path, port: int) -> Settings:
    """Settings of a stack that lies in a folder of its own, whatever settings its user has."""
    var = home / "var"
    places = {name: var / name for name in ("archive", "warehouse", "master_pages")}
    shipped = {name: PROJECT / "warehouse" / name for name in ("pipelines", "streams", "correlations")}
    return load(
        home=home, var=var, **places, **shipped, jars=PROJECT / "var" / "jars", airflow_port=port,
        postgres_dsn=None, airflow_dsn=None, stream_store=None, schedule=None,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=2_000.0, help="orders a second between bursts")
    parser.add_argument("--quick", action="store_true", help="keep the result elsewhere: to see that it runs")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="frontstage-soak-") as home, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        settings = settings_in(Path(home), port)
        with Stack(settings, on_postgres=seed, progress=progress) as stack, stack.airflow() as airflow:
            for dag in (PIPELINE, UPKEEP):
                airflow.wait_for_dag(dag)
                airflow.unpause(dag)
            dsn = stack.postgres_dsn
            orders = Load(settings.var / "landing" / PIPELINE, dsn, given.rate)
            sampler = Sampler(settings, dsn, PIPELINE, os.getpid())
            result = Soak(settings, dsn, airflow, orders, sampler).run(given.minutes)
    path = keep(result, (QUICK if given.quick else RESULTS) / "soak.json")
    for one in result["aims"]:
        progress(aim_line(one))
    progress(f"kept in {path.name}")
    return exit_code(result)


if __name__ == "__main__":
    sys.exit(main())
