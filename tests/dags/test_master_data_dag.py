"""The `master_data` DAG as Airflow reads it."""

from __future__ import annotations

import json

import pytest

from etl import settings
from etl.masters.declared import declared_masters
from etl.settings import PROJECT
from tests.support.airflow_python import ask

DAG_FILE = PROJECT / "dags" / "master_data.py"

SCRIPT = """
import json, sys
sys.path.insert(0, "dags")
import master_data
dag = master_data.flow
print(json.dumps({
    "tasks": {task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks},
    "outlets": {task.task_id: [asset.name for asset in task.outlets] for task in dag.tasks if task.outlets},
    "retries": sorted({task.retries for task in dag.tasks}),
    "delays": sorted({task.retry_delay.total_seconds() for task in dag.tasks}),
    "schedule": str(dag.schedule),
    "max_active_runs": dag.max_active_runs,
    "catchup": dag.catchup,
    "params": {name: dag.params[name] for name in dag.params},
    "heavy": sorted({"pyspark", "pyarrow", "psycopg2"} & set(sys.modules)),
}))
"""


@pytest.fixture(scope="module")
def dag(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return dict(json.loads(ask(SCRIPT, tmp_path_factory.mktemp("airflow"))[-1]))


def test_every_master_goes_its_own_way_through_the_three_steps(dag: dict[str, dict[str, list[str]]]) -> None:
    names = [master.name.replace(".", "-") for master in declared_masters(settings.load())]
    assert names[:2] == ["customer", "product"]
    assert len(set(names)) == len(names)
    for name in names:
        assert dag["tasks"][f"{name}.refresh"] == [f"{name}.compact"]
        assert dag["tasks"][f"{name}.compact"] == [f"{name}.prune"]
    assert len(dag["tasks"]) == 3 * len(names)


def test_refreshing_tells_other_dags_about_the_master(dag: dict[str, dict[str, list[str]]]) -> None:
    assert dag["outlets"]["customer.refresh"] == ["master-customer"]
    assert set(dag["outlets"]) == {task for task in dag["tasks"] if task.endswith(".refresh")}


def test_it_runs_every_hour_one_run_at_a_time_and_outlasts_a_busy_store(dag: dict[str, object]) -> None:
    assert (dag["schedule"], dag["max_active_runs"], dag["catchup"]) == ("@hourly", 1, False)
    assert (dag["retries"], dag["delays"]) == ([5], [30.0])


def test_a_form_lets_a_person_publish_whole(dag: dict[str, object]) -> None:
    assert dag["params"] == {"publish": False}


def test_the_dag_file_is_thin_and_imports_the_work_inside_tasks_only(dag: dict[str, object]) -> None:
    text = DAG_FILE.read_text()
    assert len(text.splitlines()) < 60
    assert "pyspark" not in dag["heavy"]  # type: ignore[operator]
