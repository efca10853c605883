"""Correlations on Spark whose tasks lose their Python worker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from etl.spark.correlate import SparkCorrelations

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Killing(SparkCorrelations):
    """Correlations on Spark whose first task of a kind is killed with its Python worker, as the kernel would do it."""

    def __init__(self, spark: SparkSession, flag: Path, where: str) -> None:
        super().__init__(spark)
        self._flag, self._where = flag, where

    def tasks(self, work: Any) -> Any:
        return partial(_killed_once, str(self._flag), self._where, work)


def _killed_once(flag: str, where: str, work: Any, batches: Iterator[Any]) -> Iterator[Any]:
    mine = work.func.__name__ == where
    for batch in work(batches):
        if mine and not os.path.exists(flag):  # noqa: PTH110 - runs in a worker
            open(flag, "w").close()  # noqa: PTH123
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch
