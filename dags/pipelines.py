"""A DAG for every pipeline that a file declares: `warehouse/pipelines/NAME.toml` becomes DAG `NAME`."""

from __future__ import annotations

from etl import settings
from etl.airflow.dags.pipeline import broken_dag, pipeline_dag
from etl.contract.load import load_all

own = settings.load()
declared = load_all(own.pipelines, own.var)

for pipeline in declared.pipelines:
    globals()[f"pipeline_{pipeline.name}"] = pipeline_dag(pipeline, own.schedule)
for number, error in enumerate(declared.errors):
    globals()[f"broken_{number}"] = broken_dag(error)
