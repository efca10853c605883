"""`python -m bench.peers`: R and orders made once, Postgres started, two Sparks in turn, bench/results/peers.json."""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark

from bench.data import DataSet
from bench.measured import RESULTS, exit_code, keep, machine, progress
from bench.peers import phases
from bench.peers.jars import jdbc_jar
from bench.peers.measure import Row
from bench.peers.plan import CONTENDERS, OURS, PEERS, Jdbc, Plan
from bench.peers.results import aims, grown, ratios, table
from bench.peers.spark_peers import HEAP
from etl import settings as configuration
from etl.errors import FrontstageError
from etl.settings import Settings
from etl.stack.credentials import credentials
from etl.stack.postgres import FRONTSTAGE, embedded_postgres

_NOTES = {
    "peers": f"Spark's defaults (adaptive planning, whole-stage code, full JIT), heap {HEAP}, R planned by Spark",
    "ours": "the session of the pipeline, compiled as the peers' is (spark_jit=full); one join per skew, large batches "
    "first, learned rows kept between batches",
    "identity": "`mapInArrow` as Spark comes, in the peers' session",
    "warm-up": "every contender works for ten seconds, or on twelve batches, before it is timed",
    "action": "write to noop: every column of every row; each timed batch is seen for the first time",
}


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.peers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of R")
    parser.add_argument("--batches", type=int, nargs="+", default=[50_000, 1_000_000], help="orders per batch")
    parser.add_argument("--zipf", type=float, nargs="+", default=[0.0, 0.5, 1.0], help="skews of the orders' keys")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--repeats", type=int, default=3, help="timed batches per cell at least, the median counts")
    parser.add_argument("--warmups", type=int, default=12, help="batches before them at most")
    parser.add_argument(
        "--small-rows", type=int, help="the smaller R of the growth measurement (a tenth of R; 0: none)"
    )
    parser.add_argument("--output", type=Path, default=RESULTS / "peers.json")
    return parser.parse_args(arguments)


def plan_of(chosen: argparse.Namespace, settings: Settings) -> Plan:
    """The options as a plan, with an embedded Postgres of its own that listens on some free port."""
    own = settings.model_copy(
        update={
            "var": settings.var / "bench",
            "postgres_dsn": None,
            "postgres_tcp_port": _free_port(),
            "spark_jit": "full",  # as Spark's defaults have it for the peers
        }
    )
    small = chosen.rows // 10 if chosen.small_rows is None else chosen.small_rows
    return Plan(
        data=DataSet(own.var, chosen.rows),
        batches=tuple(chosen.batches),
        zipfs=tuple(chosen.zipf),
        contenders=tuple(chosen.contenders),
        repeats=chosen.repeats,
        settings=own,
        warmups=chosen.warmups,
        small_rows=small or None,
    )


def prepare(plan: Plan) -> None:
    """R as pages, and all orders, before anything is timed."""
    sizes = {plan.data.rows}
    if plan.chosen(OURS):
        plan.data.publish()
    if plan.small_rows and "auto" in plan.contenders:
        replace(plan.data, rows=plan.small_rows).publish()
        sizes.add(plan.small_rows)
    progress("making the orders that are not there yet")
    for rows in sorted(sizes):
        data = replace(plan.data, rows=rows)
        for zipf in plan.zipfs:
            for draw in [draw for size in plan.batches for draw in plan.warming(size, zipf) + plan.timed(size, zipf)]:
                data.orders(draw)
                if draw.number == 0:
                    data.expected(draw)


@contextmanager
def with_postgres(plan: Plan) -> Iterator[Plan]:
    """The plan with R in a Postgres that runs, when somebody needs it."""
    if not plan.needs_postgres:
        yield plan
        return
    jar = jdbc_jar(plan.settings.var / "jars")
    with embedded_postgres(plan.settings) as dsn:
        plan.data.load(dsn)
        url = f"jdbc:postgresql://127.0.0.1:{plan.settings.postgres_tcp_port}/{FRONTSTAGE}"
        jdbc = Jdbc(url, "postgres", credentials(plan.settings).postgres_password, str(jar))
        yield replace(plan, dsn=dsn, jdbc=jdbc)


def run(plan: Plan, output: Path) -> dict[str, Any]:
    """Everything in turn: never two Sparks at once, and no Postgres beside ours. What is done is kept on the way."""
    rows: list[Row] = []
    larger: list[Row] = []
    partial = output.with_suffix(".partial.json")
    if plan.chosen((*PEERS, "identity")):
        with with_postgres(plan) as ready:
            rows += phases.in_own_process(phases.peers, ready)
        keep(result_of(plan, rows, larger), partial)
    if plan.chosen((*OURS, "identity")):
        rows += phases.in_own_process(phases.ours, plan)
        keep(result_of(plan, rows, larger), partial)
    if "auto" in plan.contenders and plan.small_rows:
        progress(f"auto again, R = {plan.small_rows:,} beside R = {plan.data.rows:,}")
        larger = phases.in_own_process(phases.growth, plan)
    partial.unlink(missing_ok=True)
    return result_of(plan, rows, larger)


def result_of(plan: Plan, rows: list[Row], larger: list[Row]) -> dict[str, Any]:
    """What the file holds."""
    result: dict[str, Any] = {
        "machine": {**machine(), "pyspark": pyspark.__version__},
        "rows_in_master": plan.data.rows,
        "bytes_of_master": plan.data.bytes,
        "repeats": plan.repeats,
        "notes": _NOTES,
        "rows": [row for row in rows if row["contender"] in CONTENDERS],
        "transport": [row for row in rows if row["contender"] not in CONTENDERS],
        "growth": larger,
    }
    result["ratios"], result["growth_ratios"] = ratios(result["rows"]), grown(larger)
    return {**result, "aims": aims(result)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    chosen = parsed()
    try:
        plan = plan_of(chosen, configuration.load())
        prepare(plan)
        result = run(plan, chosen.output)
    except FrontstageError as error:
        sys.exit(f"bench.peers: {error}")
    print(table(result))
    progress(f"kept in {keep(result, chosen.output).name}")
    return exit_code(result)


if __name__ == "__main__":
    sys.exit(main())
