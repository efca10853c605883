"""A DSN reaches Python workers under seal, and its key is on no command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from etl.adapters.postgres import SecretDsn, secret
from tests.support.command_line import command_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
DSN = "postgresql://frontstage:s3cr3t@db/frontstage"


def _tell(dsn: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array([dsn] * batch.num_rows)], names=["dsn"])


def test_workers_open_what_is_sealed_on_the_way(spark: SparkSession) -> None:
    work = partial(_tell, SecretDsn(DSN))
    assert b"s3cr3t" not in cloudpickle.dumps(work)
    (row,) = spark.range(1).mapInArrow(work, "dsn string").collect()
    assert row.dsn == DSN
    lines = " ".join(" ".join(command_line(one)) for one in psutil.Process().children(recursive=True))
    assert "s3cr3t" not in lines
    assert os.environ[secret.KEY] not in lines
