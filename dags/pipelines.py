"""A DAG for every pipeline that a file declares: `warehouse/pipelines/NAME.toml` becomes DAG `NAME`.

A file with mistakes is a DAG `broken_FILE` that says what is wrong, so it never takes the place of another pipeline.
"""

from __future__ import annotations

from etl import settings
from etl.airflow.dags.pipeline import broken_dag, pipeline_dag
from etl.contract.load import load_all
from etl.contract.words.dag_ids import broken_ids

own = settings.load()
declared = load_all(own.pipelines, own.var)

for pipeline in declared.pipelines:
    globals()[f"pipeline_{pipeline.name}"] = pipeline_dag(pipeline, own.schedule)
ids = broken_ids(error.file for error in declared.errors)
for dag_id, error in zip(ids, declared.errors, strict=True):
    globals()[dag_id] = broken_dag(dag_id, error)
