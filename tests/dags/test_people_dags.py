"""The DAGs `held` and `backlog` as Airflow reads them."""

from __future__ import annotations

import json

import pytest

from etl.settings import PROJECT
from tests.support.airflow_python import ask
from tests.support.site import Site, order

SCRIPT = """
import json, sys
sys.path.insert(0, "dags")
import backlog, held
from etl.airflow.tasks.held import _plain
question = held.flow.task_dict["question"]
print(json.dumps({
    "held": {name: sorted(task.downstream_task_ids) for name, task in held.flow.task_dict.items()},
    "options": question.options,
    "form": sorted(question.params),
    "waits": question.response_timeout is None and held.flow.dagrun_timeout is None,
    "backlog": [sorted(backlog.flow.task_dict), backlog.flow.schedule, backlog.flow.max_active_runs],
    "plain": _plain("expect [x](http://y) of <b> failed"),
    "heavy": sorted({"pyspark", "great_expectations", "pandas", "numba", "deltalake"} & set(sys.modules)),
}))
for dag, name, value in ((held, "pipeline", "../orders"), (held, "batch", 0), (backlog, "minutes", 0)):
    try:
        dag.flow.params[name] = value
        dag.flow.params.validate()
    except Exception as error:
        print(name, type(error).__name__)
"""
NIGHT = """
import json
from datetime import timedelta
from airflow.sdk.exceptions import AirflowSkipException
from etl.airflow.tasks.backlog import drain_pipeline
from etl.pipeline.steps import Steps
from etl.pipeline.tasks.in_process import InProcess
from etl.spark.runner import client
from tests.faults.world import steady

def run_step(own, dsn, step, pipeline, run_id):
    return Steps(own, dsn(), InProcess()).run(step, pipeline, run_id, None, None, lambda _: None)

steady()  # no audit: Great Expectations is not what this is about
client.run_step = run_step
for _ in range(2):
    try:
        print(json.dumps({"drained": drain_pipeline("orders", "night", timedelta(minutes=5))}))
    except AirflowSkipException as error:
        print(json.dumps({"skipped": str(error)}))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return ask(SCRIPT, tmp_path_factory.mktemp("airflow"))


def test_a_question_waits_as_long_as_it_takes_and_its_answer_is_written_down(told: list[str]) -> None:
    found = json.loads(next(line for line in told if line.startswith("{")))
    assert found["held"] == {"describe": ["question"], "question": ["act"], "act": []}
    assert (found["options"], found["form"], found["waits"]) == (["Release", "Reject"], ["note"], True)
    assert found["plain"] == r"expect \[x\]\(http://y\) of \<b\> failed", "text from events means nothing in Markdown"
    assert found["heavy"] == []


def test_shed_events_come_back_at_night_one_pipeline_at_a_time(told: list[str]) -> None:
    found = json.loads(next(line for line in told if line.startswith("{")))
    assert found["backlog"] == [["drain"], "0 2 * * *", 1]


def test_what_was_shed_is_in_the_fact_after_the_night_and_the_next_one_has_nothing_to_do(site: Site) -> None:
    small = site.changed(task_lookups=1, tactic="inlj")
    small.land("a.jsonl", *[order(number, customer_id=number, product_id=1) for number in range(1, 11)])
    small.run()
    small.close()
    said = ask(NIGHT, site.settings.home, FRONTSTAGE_POSTGRES_DSN=site.dsn)
    assert [json.loads(line) for line in said if line.startswith("{")] == [
        {"drained": {"pipeline": "orders", "batches": 1, "before": 9, "after": 0}},
        {"skipped": "nothing waits for time"},
    ]
    assert site.totals()["fact"] == 10
    assert site.inventory().faults == []


def test_forms_refuse_what_is_not_a_pipeline_a_batch_or_a_time(told: list[str]) -> None:
    assert [line.split()[0] for line in told if line.endswith("Error")] == ["pipeline", "batch", "minutes"]


@pytest.mark.parametrize("name", ["held", "backlog"])
def test_the_files_are_thin(name: str) -> None:
    assert len((PROJECT / "dags" / f"{name}.py").read_text().splitlines()) <= 80
