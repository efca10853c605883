"""The `benchmark` DAG: runs a chosen benchmark and publishes its page. By hand only; it takes minutes and all cores.

measure: `python -m bench.NAME` in the checkout; its results go to `bench/results`, its page to `benchmark/NAME` among
the run reports. A missed aim fails the run. Pipelines that run meanwhile make its figures worse: pause them first.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException

from etl import settings

BENCHES = [
    *("pipeline", "overload", "session", "peers", "figures", "grid", "cold", "pages"),
    *("biclique", "adhoc", "documents", "multiway"),
]
BENCH: Any = Param("pipeline", type="string", enum=BENCHES, title="Benchmark", description="What to measure")
HOURS = 2


@task(retries=0)
def measure() -> str:
    """Run the benchmark, and write the page of what it leaves."""
    import subprocess
    import sys
    import time

    from etl.report import benchmark as pages

    own, bench = settings.load(), get_current_context()["params"]["bench"]
    results = settings.PROJECT / "bench" / "results"
    if not results.is_dir():
        raise AirflowFailException("the benchmarks are in the checkout, not in the wheel; run this DAG there")
    began = time.time()
    command = [sys.executable, "-m", f"bench.{bench}"]
    done = subprocess.run(command, cwd=settings.PROJECT, capture_output=True, text=True, timeout=HOURS * 3600)
    print(done.stdout, done.stderr, sep="\n")
    fresh = [path for path in results.iterdir() if path.stat().st_mtime >= began]
    page = pages.write(bench, done.stdout + done.stderr, fresh, own.reports / "benchmark", datetime.now(UTC))
    if done.returncode:
        raise AirflowFailException(f"bench.{bench} ended with {done.returncode}; see {page}")
    return str(page)


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"owner": "frontstage"},
    dagrun_timeout=timedelta(hours=HOURS + 1),
    tags=["frontstage"],
    description="Measure a benchmark and publish its page",
    doc_md=__doc__,
    params={"bench": BENCH},
)
def benchmark() -> None:
    measure()


flow = benchmark()
