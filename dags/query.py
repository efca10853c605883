"""The DAG `query`: ad-hoc joins over streams by form."""

from __future__ import annotations

from etl.airflow.dags.query import query_dag

flow = query_dag()
