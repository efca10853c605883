"""The demo: its own stack, orders in waves, run by Airflow, and a balance of all events at the end.

    stack up ─▶ master data ─▶ wave ─▶ DAG run ─▶ … ─▶ balance ─▶ summary.json ─▶ everything stopped

It lives under `var/demo` and starts from an empty warehouse every time; only the Postgres cluster and Airflow's
schema stay, which is why the second demonstration is quicker.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from etl.adapters import ledger, postgres
from etl.contract.load import load
from etl.errors import TerminalError
from etl.pipeline.inspection import inventory
from etl.pipeline.prepare import places_of
from etl.samples import OrderConfig, Tally, arrive_late_customers, generate_master, order_waves, seed, touch_customers
from etl.settings import Settings
from etl.stack.airflow.client import Airflow, Run
from etl.stack.stack import Stack

DAG = "orders"
RUN_S = 240.0


class Reporter(Protocol):
    """The output of the demo."""

    def say(self, sentence: str) -> None:
        """Report a finished event."""
        ...

    def doing(self, what: str) -> None:
        """Report the current activity."""
        ...


class Unbalanced(TerminalError):
    """Orders are missing or duplicated."""


@dataclass(frozen=True, slots=True)
class DemoSize:
    """How much the demonstration generates."""

    customers: int = 100_000
    products: int = 20_000
    orders: int = 200_000
    waves: int = 4
    moving_share: float = 0.02

    @property
    def orders_per_wave(self) -> int:
        """Orders of one wave; the last line of the last wave counts too."""
        return self.orders // self.waves


def run(settings: Settings, size: DemoSize, reporter: Reporter) -> dict[str, Any]:
    """Run the demonstration and return its summary, which is also in `var/demo/summary.json`."""
    began = datetime.now(UTC)
    config = OrderConfig(customers=size.customers, products=size.products).fresh(began)
    reporter.doing("starting Postgres, Spark and Airflow")

    def on_postgres(dsn: str) -> None:
        seed.clean(settings)  # here, because only the holder of the lock may remove files
        seed.forget(dsn)
        postgres.migrate(dsn)
        with postgres.connect(dsn) as connection:
            generate_master(connection, config.seed, size.customers, size.products)
        reporter.say(f"{size.customers:,} customers and {size.products:,} products are in Postgres")

    with Stack(settings, on_postgres=on_postgres, progress=reporter.say) as stack, stack.airflow() as airflow:
        airflow.wait_for_dag(DAG)
        airflow.unpause(DAG)
        for tally in _waves(settings, stack, config, size, reporter):
            _run_wave(airflow, reporter, tally)
        summary = _summary(settings, stack.postgres_dsn, _all_runs(airflow, began))
        reporter.doing("stopping everything")
    _write(settings, summary)
    _require_balance(summary)
    return summary


def _waves(
    settings: Settings, stack: Stack, config: OrderConfig, size: DemoSize, reporter: Reporter
) -> Iterator[Tally]:
    """The waves, one at a time; before the last one the late customers arrive and some others move house."""
    start = datetime.now(UTC) - timedelta(minutes=size.waves)
    waves = order_waves(landing_of(settings), config, size.waves, size.orders_per_wave, 10_000, start)
    for number in range(1, size.waves + 1):
        if number == size.waves:
            with postgres.connect(stack.postgres_dsn) as connection:
                arrived = arrive_late_customers(connection, config)
                moved = touch_customers(connection, config.seed, size.customers, size.moving_share, version=1)
            reporter.say(f"{arrived:,} customers arrive whose orders were already waiting; {len(moved):,} move house")
        tally = next(waves)
        reporter.say(f"wave {number} of {size.waves}: {tally.lines:,} orders landed in {tally.files} files")
        yield tally


def _run_wave(airflow: Airflow, reporter: Reporter, tally: Tally) -> None:
    """Let Airflow process a wave, as if triggered from its UI."""
    run_id = airflow.trigger(DAG)
    reporter.doing(f"Airflow runs the micro-batch of {tally.lines:,} orders")
    run = airflow.wait(DAG, run_id, timeout_s=RUN_S)
    reporter.say(f"DAG run {run_id}: {run.state} in {run.seconds or 0:.1f} s")


def _all_runs(airflow: Airflow, since: datetime) -> list[Run]:
    """Every run of this demonstration, oldest first; all of them are done."""
    ours = [run for run in airflow.runs(DAG) if run.queued_at is not None and run.queued_at >= since]
    return [airflow.wait(DAG, run.run_id, timeout_s=RUN_S) for run in reversed(ours)]


def _summary(settings: Settings, dsn: str, runs: list[Run]) -> dict[str, Any]:
    """Counted from files, Delta and Postgres, not from running totals."""
    pipeline = load(settings.pipelines / f"{DAG}.toml", settings.var)
    with ledger.reading(dsn, DAG) as book:
        counted = inventory.take(pipeline, places_of(settings, pipeline), book, dsn)
        batches, waiting = book.history(1000), book.backlog_files()
    probes = sum(join.probes for batch in batches for join in batch.counts.joins.values())
    hits = sum(join.hits for batch in batches for join in batch.counts.joins.values())
    return {
        "orders_landed": _lines(landing_of(settings)) + _lines(settings.archive),
        "fact": counted.fact,
        "quarantine": counted.quarantine,
        "backlog_open": counted.backlog_open,
        "duplicates": counted.duplicates,
        "hit_ratio": round(hits / probes, 4) if probes else None,
        "shed": sum(file.waiting for file in waiting if file.cause == "time"),
        "unmatched_open": sum(file.waiting for file in waiting if file.cause == "master"),
        "freshness_s": _freshness(dsn),
        "dag_runs": [{"run_id": r.run_id, "state": r.state, "seconds": round(r.seconds or 0, 1)} for r in runs],
        "reports": {
            "run": str(settings.reports / DAG / "index.html"),
            "data_docs": str(settings.data_docs / "index.html"),
        },
    }


def _freshness(dsn: str) -> dict[str, float | None]:
    """How old orders were when they became visible, in seconds, over everything in the mart."""
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(_FRESHNESS)
        p50, p95 = cursor.fetchone() or (None, None)
    return {"p50": None if p50 is None else float(p50), "p95": None if p95 is None else float(p95)}


_FRESHNESS = """
select round(percentile_cont(0.50) within group (order by extract(epoch from loaded_at - landed_at))::numeric, 2),
       round(percentile_cont(0.95) within group (order by extract(epoch from loaded_at - landed_at))::numeric, 2)
from mart.orders
"""


def landing_of(settings: Settings) -> Path:
    """The landing folder of orders."""
    return load(settings.pipelines / f"{DAG}.toml", settings.var).stream.source.landing


def _lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.rglob("*.jsonl"))


def _require_balance(summary: dict[str, Any]) -> None:
    failed = [run["run_id"] for run in summary["dag_runs"] if run["state"] != "success"]
    if failed:
        raise Unbalanced(f"{len(failed)} DAG runs did not succeed ({', '.join(failed)}); see var/demo/logs")
    places = {name: summary[name] for name in ("fact", "quarantine", "backlog_open", "duplicates")}
    if sum(places.values()) != summary["orders_landed"]:
        raise Unbalanced(f"{summary['orders_landed']} orders landed, but {places} add up to {sum(places.values())}")


def _write(settings: Settings, summary: dict[str, Any]) -> None:
    draft = settings.var / "summary.json.new"
    draft.write_text(json.dumps(summary, indent=2) + "\n")
    draft.replace(settings.var / "summary.json")
