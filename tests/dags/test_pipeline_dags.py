"""The DAGs as Airflow reads them: one for each declared pipeline, whatever state the other files are in."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from etl.contract.words.dag_ids import SHIPPED
from etl.settings import PROJECT
from tests.support.airflow_python import ask

SCRIPT = """
import json, sys
sys.path.insert(0, "dags")
import pipelines
from airflow.sdk import DAG

def described(dag):
    return {
        "tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
        "outlets": {task.task_id: [asset.name for asset in task.outlets] for task in dag.tasks},
        "rules": {task.task_id: task.trigger_rule.value for task in dag.tasks},
        "retries": sorted({task.retries for task in dag.tasks}),
        "schedule": dag.schedule if isinstance(dag.schedule, str | None) else [
            [asset.name, [watcher.trigger.serialize()[0] for watcher in asset.watchers]] for asset in dag.schedule],
        "max_active_runs": dag.max_active_runs,
        "at_a_time": {task.task_id: task.max_active_tis_per_dag for task in dag.tasks},
        "catchup": dag.catchup,
        "params": list(dag.params),
        "tags": sorted(dag.tags),
        "description": dag.description,
        "run_types": sorted(dag.allowed_run_types or ()),
        "deadline": [
            [one.reference.reference_name, one.interval.total_seconds(), one.callback.path, one.callback.kwargs]
            for one in dag.deadline or ()
        ],
    }

found = {dag.dag_id: described(dag) for dag in vars(pipelines).values() if isinstance(dag, DAG)}
heavy = {"pyspark", "great_expectations", "pandas", "numba", "deltalake"}
print(json.dumps({"dags": found, "heavy": sorted(heavy & set(sys.modules))}))
"""
EVERY = """
import json
from etl.airflow.all_dags import all_dags

print(json.dumps(sorted(all_dags())))
"""
REFUSED = """
import json, sys
sys.path.insert(0, "dags")
import pipelines
from airflow.sdk.exceptions import ParamValidationError

for text in sys.argv[2:]:
    params = pipelines.pipeline_orders.params
    try:
        params[sys.argv[1]] = json.loads(text)
        params.validate()
        print(text, "taken")
    except ParamValidationError:
        print(text, "refused")
"""
KINDS = """
import threading
from http.server import BaseHTTPRequestHandler
from socketserver import UnixStreamServer
from airflow.sdk.exceptions import AirflowFailException
from etl import settings
from etl.airflow.dags import pipeline as pipeline_dag
from etl.errors import TransientError

class Dying(BaseHTTPRequestHandler):
    "A driver that is well when it is asked, and goes away in the middle of a step."
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def do_POST(self):
        self.close_connection = True
    def log_message(self, *words):
        pass

own = settings.load()
own.runner_socket.parent.mkdir(parents=True, exist_ok=True)
server = UnixStreamServer(str(own.runner_socket), Dying)
own.runner_socket.chmod(0o600)
threading.Thread(target=server.serve_forever, daemon=True).start()
pipeline_dag.get_current_context = lambda: {"run_id": "manual__1"}
for asked in ({"reprocess_from": "2026-02-30"}, {"tatic": "meshjoin"}, {}):
    try:
        pipeline_dag.run_step("micro_batch", "orders", asked=asked)
    except AirflowFailException as error:
        print("failed for good:", error)
    except TransientError as error:
        print("tried again:", error)
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return dict(json.loads(ask(SCRIPT, tmp_path_factory.mktemp("airflow"))[-1]))


def test_every_declared_pipeline_is_a_dag_of_one_task_to_the_mart_and_a_report(shipped: dict[str, Any]) -> None:
    assert sorted(shipped["dags"]) == ["orders", "trips", "web_sessions"]
    for dag in shipped["dags"].values():
        assert dag["tasks"] == {"micro_batch": ["ask_a_person", "report"], "report": [], "ask_a_person": []}
        assert (dag["catchup"], dag["retries"]) == (False, [4])
        assert dag["rules"]["ask_a_person"] == "all_failed", "nobody is asked, and no task runs, when all is well"
        assert dag["at_a_time"]["micro_batch"] == 1
        assert dag["params"] == [
            "release", "tactic", "budget_mib", "deadline_s", "shedding", "reprocess_from", "reprocess_to",
        ], "a form"  # fmt: skip
        assert "backfill" not in dag["run_types"], "it would find nothing"
        assert dag["deadline"] == [], "nobody is alerted unless the file says so"
        assert dag["rules"]["report"] == "none_skipped", "a held batch has a report too"


def test_a_pipeline_runs_when_its_file_says(shipped: dict[str, Any]) -> None:
    ((name, watchers),) = shipped["dags"]["orders"]["schedule"]
    assert name == "orders-arrivals"
    assert watchers == ["etl.airflow.triggers.arrival.ArrivalTrigger"]
    assert shipped["dags"]["trips"]["schedule"] == "*/5 * * * *"
    assert shipped["dags"]["orders"]["max_active_runs"] == 2, "the next run need not wait for the report of this one"
    assert shipped["dags"]["trips"]["max_active_runs"] == 1


def test_publishing_tells_other_dags_about_every_table(shipped: dict[str, Any]) -> None:
    outlets = shipped["dags"]["orders"]["outlets"]
    assert outlets["micro_batch"] == [
        "orders-fact", "orders-quarantine", "orders-backlog", "orders-dim_customer", "orders-dim_product",
        "orders-mart-orders", "orders-mart-daily_sales",
    ]  # fmt: skip
    of_trips = shipped["dags"]["trips"]["outlets"]["micro_batch"]
    assert [name for name in of_trips if "dim_" in name] == ["trips-dim_pickup", "trips-dim_dropoff"], "no dim_driver"
    assert not outlets["report"]


def test_reading_the_dag_file_loads_no_engine(shipped: dict[str, Any]) -> None:
    assert shipped["heavy"] == []
    assert len((PROJECT / "dags" / "pipelines.py").read_text().splitlines()) <= 60


@pytest.mark.parametrize(("schedule", "expected"), [("none", None), ("0 5 * * *", "0 5 * * *")])
def test_a_setting_overrides_every_schedule(tmp_path: Path, schedule: str, expected: str | None) -> None:
    found = json.loads(ask(SCRIPT, tmp_path, FRONTSTAGE_SCHEDULE=schedule)[-1])["dags"]
    assert {dag["schedule"] for dag in found.values()} == {expected}


def test_a_broken_file_is_a_dag_that_says_why_and_leaves_the_others_alone(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    shutil.copytree(PROJECT / "warehouse" / "pipelines", folder)
    file = folder / "trips.toml"
    file.write_text(file.read_text().replace('key = ["service_day"', 'key = ["servce_day"'))
    (folder / "nonsense.toml").write_text("name = = 1\n")
    found = json.loads(ask(SCRIPT, tmp_path, FRONTSTAGE_PIPELINES=str(folder))[-1])["dags"]
    assert found["orders"]["tags"] == ["frontstage", "pipeline"]
    trips, nonsense = found["broken_trips"], found["broken_nonsense"]
    assert (trips["tags"], nonsense["tags"]) == (["broken", "frontstage"], ["broken", "frontstage"])
    assert trips["description"].startswith("trips.toml, line 13: 'servce_day' is not a field; did you mean")
    assert nonsense["description"].startswith("nonsense.toml, line 1: not TOML")
    assert trips["tasks"] == {"correct_the_file": []}


def test_a_broken_file_of_any_name_takes_the_place_of_no_pipeline(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    shutil.copytree(PROJECT / "warehouse" / "pipelines", folder)
    (folder / "orders backup.toml").write_text("name = = 1\n")
    (folder / "zz.toml").write_text((folder / "trips.toml").read_text())
    (folder / "trips.toml").write_text("name = = 1\n")
    shutil.copy(folder / "web_sessions.toml", folder / "web_sessions copy.toml")
    found = json.loads(ask(SCRIPT, tmp_path, FRONTSTAGE_PIPELINES=str(folder))[-1])["dags"]
    broken = {name for name, dag in found.items() if "broken" in dag["tags"]}
    assert broken == {"broken_orders_backup", "broken_trips", "broken_web_sessions"}
    assert set(found) - broken == {"orders", "trips", "web_sessions"}


def test_no_pipeline_can_have_the_id_of_a_dag_that_is_shipped(tmp_path: Path) -> None:
    for folder in ("pipelines", "correlations"):
        (tmp_path / folder).mkdir()
    (tmp_path / "correlations" / "nonsense.toml").write_text("name = = 1\n")
    folders = {f"FRONTSTAGE_{one.upper()}": str(tmp_path / one) for one in ("pipelines", "correlations")}
    assert set(json.loads(ask(EVERY, tmp_path, **folders)[-1])) == SHIPPED


def test_the_form_takes_a_batch_or_nothing(tmp_path: Path) -> None:
    given = ["null", "12", "0", "-3", "1.5", '"12"', '"x; drop table"', "[1]"]
    said = ask(REFUSED, tmp_path, "release", *given)
    assert said[-len(given) :] == [f"{text} {'taken' if text in ('null', '12') else 'refused'}" for text in given]


@pytest.mark.parametrize(
    ("field", "taken", "refused"),
    [
        ("tactic", ["null", '"auto"', '"meshjoin"'], ['"fast"', "1", '["auto"]']),
        ("budget_mib", ["null", "64"], ["0", "-1", "1.5", '"64"', "9999999"]),
        ("deadline_s", ["null", "30", "0.5"], ["0", "-1", '"30s"', "1e9"]),
        ("shedding", ["null", '"keep"', '"none"'], ['"all"', "true"]),
        ("reprocess_from", ["null", '"2026-11-01"'], ['"yesterday"', '"2026-02-30"', "20261101", "true"]),
        ("reprocess_to", ["null", '"2026-11-03"'], ['"2026-11"', "3"]),
    ],
)
def test_the_form_asks_of_one_run_what_a_run_can_do(
    tmp_path: Path, field: str, taken: list[str], refused: list[str]
) -> None:
    said = ask(REFUSED, tmp_path, field, *taken, *refused)
    expected = [f"{text} taken" for text in taken] + [f"{text} refused" for text in refused]
    assert said[-len(expected) :] == expected


def test_a_declared_freshness_is_a_deadline_of_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines"
    shutil.copytree(PROJECT / "warehouse" / "pipelines", folder)
    file = folder / "trips.toml"
    file.write_text('freshness = "2 minutes"\n' + file.read_text())
    found = json.loads(ask(SCRIPT, tmp_path, FRONTSTAGE_PIPELINES=str(folder))[-1])["dags"]
    ((reference, seconds, path, told),) = found["trips"]["deadline"]
    assert (reference, seconds, path) == ("DagRunQueuedAtDeadline", 120.0, "etl.airflow.freshness.too_late")
    assert told == {"pipeline": "trips", "freshness_s": 120.0}
    assert found["orders"]["deadline"] == []


def test_what_cannot_get_better_fails_at_once_and_what_may_is_tried_again(tmp_path: Path) -> None:
    terminal, unknown, transient = ask(KINDS, tmp_path)[-3:]
    assert unknown.startswith("failed for good: this DAG has no param tatic; it has release, tactic, ")
    assert terminal.startswith("failed for good: ")
    assert "2026-02-30" in terminal
    assert transient.startswith("tried again: ")
