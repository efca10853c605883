"""The DAG `correlations`: all that `warehouse/streams` and `warehouse/correlations` declare, one run a micro-batch."""

from __future__ import annotations

from etl import settings
from etl.airflow.dags.correlations import broken_dag, correlations_dag
from etl.airflow.tasks.sites import with_known_executors
from etl.contract.correlations.correlation_files import load_correlations, load_streams
from etl.contract.correlations.sites import load_sites

own = settings.load()
streams = load_streams(own.streams, own.var)
correlations = load_correlations(own.correlations)
sites = with_known_executors(load_sites(own.sites))

flow = correlations_dag(streams.found, correlations.found, own.schedule, sites.found)
if wrong := [*sites.errors, *streams.errors, *correlations.errors]:
    broken = broken_dag([str(error) for error in wrong])
