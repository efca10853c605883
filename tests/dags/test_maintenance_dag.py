"""The `maintenance` DAG as Airflow reads it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.airflow_python import ask

SCRIPT = """
import json, sys
sys.path.insert(0, "dags")
import maintenance
dag = maintenance.flow
print(json.dumps({
    "pipelines": dag.task_dict["keep_up"].op_kwargs_expand_input.value["pipeline"],
    "tasks": sorted(dag.task_dict),
    "schedule": str(dag.schedule),
    "max_active_runs": dag.max_active_runs,
    "params": {name: dag.params[name] for name in dag.params},
    "heavy": sorted({"pyspark", "great_expectations", "pandas", "numba", "deltalake"} & set(sys.modules)),
}))
"""


def test_every_pipeline_is_kept_up_daily_with_a_form_for_how_much_history_stays(tmp_path: Path) -> None:
    dag = json.loads(ask(SCRIPT, tmp_path)[-1])
    assert dag["tasks"] == ["correlations", "keep_up", "logs", "masters"]
    assert dag["pipelines"] == ["orders", "trips", "web_sessions"]
    assert (dag["schedule"], dag["max_active_runs"]) == ("@daily", 1)
    assert dag["params"] == {"days": 30, "dry_run": False}
    assert dag["heavy"] == []
