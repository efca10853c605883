"""The `query` DAG as Airflow reads it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.airflow_python import ask

SCRIPT = """
import json, sys
sys.path.insert(0, "dags")
import query
dag = query.flow
print(json.dumps({
    "tasks": sorted(dag.task_dict),
    "schedule": dag.schedule,
    "params": {name: dag.params[name] for name in dag.params},
    "heavy": sorted({"pyspark", "great_expectations", "pandas", "numba", "deltalake"} & set(sys.modules)),
}))
for name, value in (("name", "x; drop"), ("action", "drop"), ("within", 5), ("limit", 0)):
    try:
        dag.params[name] = value
        dag.params.validate()
    except Exception as error:
        print(name, type(error).__name__)
"""


def test_the_form_takes_what_the_command_takes_and_nothing_else(tmp_path: Path) -> None:
    lines = ask(SCRIPT, tmp_path)
    dag = json.loads(next(line for line in lines if line.startswith("{")))
    assert (dag["tasks"], dag["schedule"], dag["heavy"]) == (["ask"], None, [])
    assert dag["params"] == {
        "action": "list", "name": "", "sql": "", "within": "2m", "expires": None, "limit": 20,
    }  # fmt: skip
    refused = [line.split()[0] for line in lines if line.split()[0] in ("name", "action", "within", "limit")]
    assert refused == ["name", "action", "within", "limit"], "every wrong value is refused by its schema"
