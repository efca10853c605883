"""`make soak`: a steady rate with bursts for some minutes, and whether anything grows that should not.

    landing: 2,000 orders a second, every two minutes ten times as many for ten seconds
    driver:  micro-batches back to back through the resident Spark driver, maintenance ten times
    sampled: memory and open files of every process, files that wait or that tables name, runs of claims, freshness

Growth is the last quarter against the second one, the first is warm-up: medians of what should stay, peaks of what
rises and falls with maintenance.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from deltalake import DeltaTable

from bench.measured import AIM_HEAD, RESULTS, aim, aim_cells, aim_line, exit_code, keep, machine, progress
from etl.adapters import ledger, postgres
from etl.samples import generate_master
from etl.samples.config import OrderConfig
from etl.samples.landing import LandingWriter
from etl.samples.orders import OrderStream
from etl.settings import PROJECT, Settings, load
from etl.spark.runner.client import maintain, run_step
from etl.stack.stack import Stack

PIPELINE, CUSTOMERS, PRODUCTS = "orders", 200_000, 20_000
SAMPLE_S, ROUNDS, BURST_EVERY_S, BURST_S, BURST = 5.0, 10, 120.0, 10.0, 10
MOST_GROWTH, FEW_FILES = 1.15, 16  # fewer files than that are not worth compacting
LISTED = ("landed_files", "fact_files", "quarantine_files", "backlog_files")
_SECOND = timedelta(seconds=1)
Sample = dict[str, float]


@dataclass
class Soak:
    """One soak: what lands, what runs, what is seen."""

    settings: Settings
    dsn: str = field(repr=False)
    supervisor: int
    rate_per_s: float
    samples: list[Sample] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def land(self) -> None:
        """Until it is over: a file about every second."""
        config = OrderConfig(
            customers=CUSTOMERS, products=PRODUCTS, share_unknown_customers=0.0, share_late_customers=0.0
        ).fresh(datetime.now(UTC))
        stream = OrderStream(config)
        writer, began = LandingWriter(self.settings.var / "landing" / PIPELINE, config.stream), time.monotonic()
        while not self.over.wait(1.0):
            bursting = (time.monotonic() - began) % BURST_EVERY_S > BURST_EVERY_S - BURST_S
            count = int(self.rate_per_s * (BURST if bursting else 1))
            writer.write(stream.wave(count, datetime.now(UTC), _SECOND), 100_000)

    def watch(self) -> None:
        while not self.over.wait(SAMPLE_S):
            self.samples.append({**self._processes(), **self._files()})

    def _processes(self) -> Sample:
        found: Sample = defaultdict(float)
        for process in psutil.Process(self.supervisor).children(recursive=True):
            try:
                kind = _kind(process.cmdline())
                found[f"memory_mb {kind}"] += process.memory_full_info().pss / 2**20
                found[f"open_files {kind}"] += process.num_fds()
            except (psutil.Error, OSError):
                continue
        return dict(found)

    def _files(self) -> Sample:
        with ledger.reading(self.dsn, PIPELINE) as book:
            runs, waiting = len(book.claim_runs()), sum(one.waiting for one in book.backlog_files())
        landing = self.settings.var / "landing" / PIPELINE
        return {
            "claim_runs": runs,
            "backlog": waiting,
            "landed_files": sum(1 for _ in landing.glob("*.jsonl")) if landing.exists() else 0,
            **{f"{table}_files": self._listed(table) for table in ("fact", "quarantine", "backlog")},
        }

    def _listed(self, table: str) -> int:
        """How many files a table's newest version names."""
        folder = self.settings.warehouse / PIPELINE / table
        return len(DeltaTable(str(folder)).file_uris()) if (folder / "_delta_log").exists() else 0

    def run(self, minutes: float) -> int:
        """Batches until time is up, then until nothing is left; gives how many."""
        until, maintained, batches = time.monotonic() + 60 * minutes, time.monotonic(), 0
        every_s = 60 * minutes / ROUNDS
        dsn = partial(str, self.dsn)
        while True:
            told = run_step(self.settings, dsn, "micro_batch", PIPELINE, "soak", progress=_quiet)
            batches += told["batch"] is not None
            if time.monotonic() >= until:
                self.over.set()
                if told["batch"] is None:
                    return batches
            elif told["batch"] is None:
                time.sleep(0.2)
            if time.monotonic() - maintained > every_s and not self.over.is_set():
                maintain(self.settings, dsn, PIPELINE, 30, progress=_quiet)
                maintained = time.monotonic()
                progress(f"{batches} batches, {(until - time.monotonic()) / 60:.1f} minutes to go")


def _kind(command: Sequence[str]) -> str:
    line = " ".join(command)
    if "postgres" in line.split(" ")[0] or "postgres:" in line:
        return "postgres"
    if "java" in line.split(" ")[0]:
        return "jvm"
    return "workers" if "pyspark" in line or "etl.spark.daemon" in line else "driver" if "runner" in line else "guards"


def growth(samples: Sequence[Mapping[str, float]], name: str) -> float:
    """The last quarter against the second one."""
    values = [one[name] for one in samples if name in one]
    quarter = len(values) // 4
    if quarter == 0:
        return 1.0
    before = statistics.median(values[quarter : 2 * quarter])
    return round(statistics.median(values[-quarter:]) / before, 3) if before else 1.0


def peaks(samples: Sequence[Mapping[str, float]], name: str) -> tuple[float, float]:
    """The most in the second quarter, and in the last one."""
    values = [one[name] for one in samples if name in one]
    quarter = len(values) // 4
    return (max(values[quarter : 2 * quarter]), max(values[-quarter:])) if quarter else (0.0, 0.0)


def _listing(samples: Sequence[Mapping[str, float]], name: str) -> dict[str, Any]:
    before, after = peaks(samples, name)
    return aim(f"{name}: most in the last quarter", after, most=round(MOST_GROWTH * before + FEW_FILES))


def aims(samples: Sequence[Mapping[str, float]], backlog: int, fresh: Mapping[str, float]) -> list[dict[str, Any]]:
    names = sorted({name for one in samples for name in one if name.startswith(("memory_mb", "open_files"))})
    flat = [aim(f"{name}: last quarter / second quarter", growth(samples, name), most=MOST_GROWTH) for name in names]
    return [
        *flat,
        *(_listing(samples, name) for name in LISTED),
        aim("runs of claims at most", max((one["claim_runs"] for one in samples), default=0.0), most=40),
        aim("backlog at the end", backlog, most=0),
        aim("freshness p95, s", fresh["p95"], most=60),
    ]


def section(result: Mapping[str, Any], table: Callable[..., str]) -> str:
    """The section of the performance page."""
    words = [
        f"{row['minutes']:g} minutes, {row['rate_per_s']:,.0f} orders a second, every {BURST_EVERY_S:.0f} s {BURST} "
        f"times as many for {BURST_S:.0f} s: {row['lines']:,} orders in {row['batches']:,} batches. Of a batch's "
        f"freshness p95 the median is {row['p50']:.1f} s and the 95th percentile {row['p95']:.1f} s."
        for row in result["rows"]
    ]
    return "\n\n".join([*words, table(AIM_HEAD, aim_cells(result))])


def _fresh(dsn: str) -> dict[str, float]:
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(
            "select percentile_cont(array[0.5, 0.95]) within group (order by (freshness ->> 'p95')::float) "
            "from etl.batch where pipeline = %s and freshness is not null",
            (PIPELINE,),
        )
        ((p50, p95),) = cursor.fetchone() or ((0.0, 0.0),)
    return {"p50": round(p50, 3), "p95": round(p95, 3)}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=2_000.0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="frontstage-soak-") as home:
        settings = load(home=Path(home), jars=PROJECT / "var" / "jars")
        with Stack(settings, ["postgres", "spark"], on_postgres=_seed, progress=progress) as stack:
            result = soak(Soak(settings, stack.postgres_dsn, psutil.Process().pid, given.rate), given.minutes)
    path = keep(result, RESULTS / "soak.json")
    for one in result["aims"]:
        progress(aim_line(one))
    progress(f"kept in {path.name}")
    return exit_code(result)


def soak(one: Soak, minutes: float) -> dict[str, Any]:
    """Run one soak; gives its result."""
    beside = [threading.Thread(target=work, daemon=True) for work in (one.land, one.watch)]
    for thread in beside:
        thread.start()
    batches = one.run(minutes)
    for thread in beside:
        thread.join(30)
    with ledger.reading(one.dsn, PIPELINE) as book:
        totals = book.totals()
    fresh = _fresh(one.dsn)
    found = aims(one.samples, totals["backlog_open"], fresh)
    row = {"minutes": minutes, "rate_per_s": one.rate_per_s, "batches": batches, "lines": totals["lines"], **fresh}
    return {"machine": machine(), "rows": [row], "samples": one.samples, "aims": found}


def _seed(dsn: str) -> None:
    postgres.migrate(dsn)
    with postgres.connect(dsn) as connection:
        generate_master(connection, seed=1, customers=CUSTOMERS, products=PRODUCTS)


def _quiet(_: str) -> None:
    """Progress nobody looks at."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
