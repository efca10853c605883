"""The DAG `query`: ad-hoc joins over streams by form."""

from __future__ import annotations

from etl.airflow.query_dag import query_dag

flow = query_dag()
