"""The DAGs `held` and `backlog` as Airflow reads them."""

from __future__ import annotations

import json

import pytest

from etl.settings import PROJECT
from tests.support.airflow_python import ask

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


def test_forms_refuse_what_is_not_a_pipeline_a_batch_or_a_time(told: list[str]) -> None:
    assert [line.split()[0] for line in told if line.endswith("Error")] == ["pipeline", "batch", "minutes"]


@pytest.mark.parametrize("name", ["held", "backlog"])
def test_the_files_are_thin(name: str) -> None:
    assert len((PROJECT / "dags" / f"{name}.py").read_text().splitlines()) <= 80
