"""docker-compose.yml without containers: its services as processes, and tasks of sites on the queues of these.

Every process has the command and the environment of its service, so this also holds that a worker of a site needs no
more than it is given: no database of Airflow's, no key, nothing of `var` but the logs.
"""

from __future__ import annotations

import runpy
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from etl.settings import PROJECT
from etl.stack.airflow.client import Airflow
from tests.support.compose_host import ComposeHost, compose_host
from tests.support.elsewhere import postgres, wait_for

pytestmark = [pytest.mark.stack, pytest.mark.full]

EXAMPLE = PROJECT / "examples" / "sites"
SITES = ("ap", "eu", "us")
AIRFLOW = {"api-server": "Uvicorn running", "scheduler": "", "dag-processor": ""}
TRUTH = """
select v.view_id
from {page_views} v join {stock_moves} s using (sku) join {price_changes} p using (sku)
where s.units <> 0 and greatest(v.t, s.t, p.t) <= least(v.t, s.t, p.t) + interval 2 second
"""
STREAMS = {"page_views": "seen_at", "stock_moves": "moved_at", "price_changes": "changed_at"}


@dataclass(frozen=True)
class Running:
    host: ComposeHost
    airflow: Airflow
    workers: Mapping[str, ExitStack]

    def wave(self, number: int) -> Mapping[str, Mapping[str, Any]]:
        """Let tuples land and run a batch; its tasks by their names."""
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for place in ("raw", "var"):
            runpy.run_path(str(EXAMPLE / "land.py"))["land"](self.host.home / place, number, 2000, today)
        run = self.airflow.trigger("correlations")
        wait_for(lambda: self.airflow.run("correlations", run).done, 300, self.host.log("scheduler"))
        tasks = self.of_tasks(run, "")["task_instances"]
        assert self.airflow.run("correlations", run).state == "success", [
            (one["task_id"], one["state"]) for one in tasks
        ]
        return {one["task_id"]: one for one in tasks}

    def of_tasks(self, run: str, more: str, **query: Any) -> Any:
        path = f"/api/v2/dags/correlations/dagRuns/{run}/taskInstances{more}"
        return self.airflow._call("ask about tasks", "GET", path, params=query)

    def results(self) -> Sequence[Mapping[str, Any]]:
        where = self.host.home / "var/warehouse/correlations/hot_items/results"
        rows: Sequence[Mapping[str, Any]] = DeltaTable(str(where)).to_pyarrow_table().to_pylist()
        return rows

    def truth(self) -> Counter[int]:
        """How often each page view is in a result: of everything that ever landed, by a database."""
        landed = self.host.home / "raw" / "landing" / "sites"
        raw = {
            name: f"(select *, {time}::timestamptz t from read_json('{landed / name}/*.jsonl'))"
            for name, time in STREAMS.items()
        }
        return Counter(view for (view,) in duckdb.sql(TRUTH.format(**raw)).fetchall())


@pytest.fixture(scope="module")
def running(session_home: Path) -> Iterator[Running]:
    """Everything but Spark's own cluster: the driver runs its tasks itself."""
    home = session_home / "compose"
    home.mkdir()
    more = {f"FRONTSTAGE_{name}": str(EXAMPLE / name.lower()) for name in ("STREAMS", "CORRELATIONS")}
    more |= {"FRONTSTAGE_SPARK_MASTER": "local[2]", "FRONTSTAGE_JARS": str(PROJECT / "var" / "jars")}
    more |= {"AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "5"}
    with ExitStack() as services:
        made = compose_host(home, services.enter_context(postgres(session_home / "compose-postgres")), more)
        prepared = made.run("prepare")
        assert prepared.returncode == 0, prepared.stdout + prepared.stderr
        services.enter_context(made.service("runner"))
        for name, ready in AIRFLOW.items():
            services.enter_context(made.service(name, ready))
        url = made.environment("api-server")["AIRFLOW__API__BASE_URL"]
        airflow = services.enter_context(Airflow(url, "admin", made.secrets["AIRFLOW_ADMIN_PASSWORD"]))
        log = made.log("scheduler")
        wait_for(lambda: airflow.runs_tasks() and airflow.health().get("scheduler") == "healthy", 120, log)
        # As without the profile `sites`: the scheduler has been well with no broker to reach.
        services.enter_context(made.broker())
        workers = {site: services.enter_context(ExitStack()) for site in SITES}
        for site, worker in workers.items():
            worker.enter_context(made.service(f"worker-{site}", f"{site}@{socket.gethostname()} ready."))
        airflow.unpause("correlations")
        yield Running(made, airflow, workers)


def test_tasks_of_a_site_are_run_by_the_worker_of_its_queue(running: Running) -> None:
    running.wave(0)
    tasks = running.wave(1)
    run = running.airflow.runs("correlations")[0].run_id
    assert [tasks[one]["executor"] for one in ("micro_batch", "gather", "report")] == [None] * 3
    shipped = 0
    for site in SITES:
        task = f"site_{site}.hot_items"
        assert (tasks[task]["queue"], tasks[task]["executor"]) == (site, "CeleryExecutor")
        log = running.host.log(f"worker-{site}").read_text()
        assert log.count("Executing workload in Celery") == 2
        assert not [other for other in SITES if other != site and f"site_{other}.hot_items" in log]
        result = running.of_tasks(run, f"/{task}/xcomEntries/return_value", deserialize=True)["value"]
        shipped += result["shipped_bytes"]
        assert "bytes with" in str(running.of_tasks(run, f"/{task}/logs/1")["content"]), "and its log is on the page"
    assert shipped > 0
    assert Counter(row["view_id"] for row in running.results()) == running.truth() != {}


def test_a_site_without_a_worker_holds_nothing_up(running: Running) -> None:
    running.workers["us"].close()
    assert running.host.healthy("worker-us").returncode == 1
    tasks = running.wave(2)
    assert {site: tasks[f"site_{site}.hot_items"]["state"] for site in SITES} == {
        "ap": "success", "eu": "success", "us": "failed"
    }  # fmt: skip
    assert Counter(row["view_id"] for row in running.results()) == running.truth()
