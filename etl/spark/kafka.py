"""Copy fixed offsets of a topic: Spark's source reads them, tasks write them to files.

    spark.read.format("kafka") ── startingOffsets, endingOffsets ── mapInArrow(write) ── one file per slice

One Spark task reads one partition of the topic. Only the names of written files are collected.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from etl.adapters.kafka.copies import SCHEMA, CopyWriter
from etl.adapters.kafka.errors import KafkaUnavailable
from etl.pipeline.input.topic_input import Fetch, Part

_COLUMNS = ("partition", "offset", "timestamp", "value")


def fetch(spark: SparkSession, wanted: Fetch) -> None:
    """Write a copy of every part that has a message. One job."""
    by_partition: dict[int, list[Part]] = defaultdict(list)
    for one in wanted.parts:
        by_partition[one.partition].append(one)
    if not by_partition:
        return
    messages = _messages(spark, wanted, by_partition)
    try:
        messages.mapInArrow(partial(_write, dict(by_partition)), "path string").collect()
    except Exception as error:
        raise _known(error, wanted) from None


def _messages(spark: SparkSession, wanted: Fetch, parts: dict[int, list[Part]]) -> DataFrame:
    first = {str(number): min(one.first for one in ranges) for number, ranges in parts.items()}
    last = {str(number): max(one.last for one in ranges) for number, ranges in parts.items()}
    options = {
        **wanted.access.for_spark(),
        "kafka.isolation.level": "read_committed",
        "assign": json.dumps({wanted.topic: sorted(parts)}),
        "startingOffsets": json.dumps({wanted.topic: first}),
        "endingOffsets": json.dumps({wanted.topic: last}),
        "failOnDataLoss": "true",
    }
    return spark.read.format("kafka").options(**options).load().select(*_COLUMNS)


def _write(parts: dict[int, list[Part]], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    writers: dict[Part, CopyWriter] = {}
    try:
        for batch in batches:
            for number in pc.unique(batch.column("partition")).to_pylist():
                rows = batch.filter(pc.equal(batch.column("partition"), number))
                for one in parts[number]:
                    _add(writers, one, rows)
        for writer in writers.values():
            writer.close()
    except BaseException:
        for writer in writers.values():
            writer.abandon()
        raise
    yield pa.RecordBatch.from_pydict({"path": pa.array([str(one.path) for one in writers], pa.string())})


def _add(writers: dict[Part, CopyWriter], one: Part, rows: pa.RecordBatch) -> None:
    offset = rows.column("offset")
    mine = rows.filter(pc.and_(pc.greater_equal(offset, one.first), pc.less(offset, one.last)))
    if mine.num_rows:
        if one not in writers:
            writers[one] = CopyWriter(one.path)
        columns = [mine.column(field.name).cast(field.type) for field in SCHEMA]
        writers[one].write(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))


def _known(error: Exception, wanted: Fetch) -> Exception:
    """The error without Spark's full message, which may contain options with secrets."""
    text = str(error)
    if "org.apache.kafka" in text or "KafkaException" in text:
        cause = next((line for line in text.splitlines() if "org.apache.kafka" in line), text.splitlines()[0])
        return KafkaUnavailable(wanted.access.servers, cause.strip()[:200])
    return error
