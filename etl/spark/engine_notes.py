"""Join notes added up by a Spark accumulator, for joins of data frames outside a pipeline's batches.

A retried task counts twice; PySpark keeps every accumulator for the lifetime of the process.
"""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from etl.pipeline.tasks.join_notes import MasterNotes, Notes

__all__ = ["MasterNotes", "Notes", "collector"]


class _Sum(AccumulatorParam[Notes]):  # type: ignore[misc]  # Spark comes without types
    def zero(self, value: Notes) -> Notes:  # noqa: ARG002 - Spark passes the first value
        return {}

    def addInPlace(self, one: Notes, other: Notes) -> Notes:  # noqa: N802 - Spark's name
        for name, notes in other.items():
            one[name] = one[name] + notes if name in one else notes
        return one


def collector(context: SparkContext) -> Accumulator[Notes]:
    """An empty accumulator for one batch."""
    return context.accumulator({}, _Sum())
