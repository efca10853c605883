"""The process that Spark's Python workers are forked from: it has loaded what every task needs.

A worker that is forked from it starts with the engine, Arrow and the compiled kernels in memory, instead of spending a
second on them while its first events wait. Set as `spark.python.daemon.module`.
"""

from __future__ import annotations

from pyspark import daemon

from etl.ingest.warm import warm
from etl.pipeline import read, route

__all__ = ["read", "route"]

if __name__ == "__main__":
    warm()
    daemon.manager()
