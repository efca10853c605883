"""The process from which Spark's Python workers are forked, with all modules that tasks need preloaded.

A worker that is forked from it starts with the engine, Arrow and the compiled kernels in memory, instead of spending a
second on them while its first events wait. Set as `spark.python.daemon.module`.
"""

from __future__ import annotations

from pyspark import daemon

from etl.correlate import warm as correlations
from etl.pipeline import warm as pipelines
from etl.pipeline.tasks import read, route
from etl.streams.tasks import dispatch, join

__all__ = ["dispatch", "join", "read", "route"]

if __name__ == "__main__":
    pipelines.warm()
    correlations.warm()
    daemon.manager()
