"""The DAG of correlations as Airflow reads it, its form, its assets, and what it says of files that cannot be used."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from etl.settings import PROJECT
from tests.support.airflow_python import ask

SCRIPT = """
import json, sys
sys.path.insert(0, "dags")
import correlations
from airflow.sdk import DAG

def described(dag):
    return {
        "tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
        "outlets": {task.task_id: [asset.name for asset in task.outlets] for task in dag.tasks},
        "at_a_time": {task.task_id: task.max_active_tis_per_dag for task in dag.tasks},
        "retries": sorted({task.retries for task in dag.tasks}),
        "schedule": dag.schedule if isinstance(dag.schedule, str | None) else [
            [asset.name, [watcher.trigger.serialize() for watcher in asset.watchers]] for asset in dag.schedule],
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "tags": sorted(dag.tags),
        "description": dag.description,
    }

found = {dag.dag_id: described(dag) for dag in vars(correlations).values() if isinstance(dag, DAG)}
heavy = {"pyspark", "great_expectations", "pandas", "numba", "deltalake", "duckdb"}
print(json.dumps({"dags": found, "heavy": sorted(heavy & set(sys.modules))}))
"""
FORM = """
import json, sys
sys.path.insert(0, "dags")
import correlations
from airflow.sdk.exceptions import ParamValidationError

for text in sys.argv[1:]:
    params = correlations.flow.params
    try:
        params["reset"] = json.loads(text)
        params.validate()
        print(text, "taken")
    except ParamValidationError:
        print(text, "refused")
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return dict(json.loads(ask(SCRIPT, tmp_path_factory.mktemp("airflow"))[-1]))


def test_one_task_carries_a_batch_of_all_correlations_and_another_reports(shipped: dict[str, Any]) -> None:
    dag = shipped["dags"]["correlations"]
    assert dag["tasks"] == {"micro_batch": ["report"], "report": []}
    assert dag["at_a_time"]["micro_batch"] == 1
    assert (dag["catchup"], dag["retries"]) == (False, [4])


def test_tuples_of_any_stream_start_a_run(shipped: dict[str, Any]) -> None:
    ((name, ((trigger, arguments),)),) = shipped["dags"]["correlations"]["schedule"]
    assert (name, trigger) == ("correlations-arrivals", "etl.airflow.triggers.stream_arrival.StreamArrivalTrigger")
    assert [stream for stream, _, _ in arguments["streams"]] == ["orders_placed", "payments", "server_log", "shipments"]


def test_every_correlation_is_an_asset_for_other_dags(shipped: dict[str, Any]) -> None:
    assert shipped["dags"]["correlations"]["outlets"]["micro_batch"] == [
        "correlations-paid_orders", "correlations-reconciled_payments", "correlations-server_log_links",
        "correlations-shipped_revenue",
    ]  # fmt: skip


def test_reading_the_dag_file_loads_no_engine(shipped: dict[str, Any]) -> None:
    assert shipped["heavy"] == []
    assert len((PROJECT / "dags" / "correlations.py").read_text().splitlines()) <= 60


@pytest.mark.parametrize(("schedule", "expected"), [("none", None), ("0 5 * * *", "0 5 * * *")])
def test_a_setting_overrides_the_schedule(tmp_path: Path, schedule: str, expected: str | None) -> None:
    dag = json.loads(ask(SCRIPT, tmp_path, FRONTSTAGE_SCHEDULE=schedule)[-1])["dags"]["correlations"]
    assert (dag["schedule"], dag["max_active_runs"]) == (expected, 1)


def test_without_streams_nothing_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    empty = str(tmp_path / "none")
    dag = json.loads(ask(SCRIPT, tmp_path, FRONTSTAGE_STREAMS=empty, FRONTSTAGE_CORRELATIONS=empty)[-1])["dags"]
    assert dag["correlations"]["schedule"] is None


def test_a_broken_file_is_a_dag_beside_that_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "correlations"
    shutil.copytree(PROJECT / "warehouse" / "correlations", folder)
    (folder / "wrong.toml").write_text('sql = "select 1"\nwithin = "soon"\n')
    found = json.loads(ask(SCRIPT, tmp_path, FRONTSTAGE_CORRELATIONS=str(folder))[-1])["dags"]
    assert set(found) == {"correlations", "correlations_broken"}
    assert "within is 'soon'" in found["correlations_broken"]["description"]
    assert len(found["correlations"]["outlets"]["micro_batch"]) == 4


def test_the_form_takes_a_declared_correlation_or_nothing(tmp_path: Path) -> None:
    given = ["null", '"paid_orders"', '"orders"', "12", '"x; drop table"']
    said = ask(FORM, tmp_path, *given)
    taken = ("null", '"paid_orders"')
    assert said[-len(given) :] == [f"{text} {'taken' if text in taken else 'refused'}" for text in given]
