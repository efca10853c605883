"""Which order ids are already taken: asked of Postgres by index, inside the plan, partition by partition.

The cost follows the batch, not the number of orders ever loaded, and nothing is collected to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from etl.adapters import postgres

_WAITING = pa.schema([("order_id", pa.int64())])
_KNOWN = pa.schema([("order_id", pa.int64()), ("payload_hash", pa.int64())])


def with_claims(orders: DataFrame, dsn: str) -> DataFrame:
    """Add `claimed_hash`: the payload that earlier batches accepted for this order id, or NULL."""
    schema = StructType([*orders.schema.fields, StructField("claimed_hash", LongType())])
    return orders.mapInArrow(partial(_look_up, dsn), schema)


def _look_up(dsn: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with postgres.connect(dsn, autocommit=True) as connection:
        for batch in batches:
            ids = batch.column("order_id")
            wanted = pc.unique(ids.drop_null())
            known = _known(connection, wanted) if len(wanted) else _KNOWN.empty_table()
            place = pc.index_in(ids, value_set=known["order_id"].combine_chunks(), skip_nulls=True)
            yield batch.append_column("claimed_hash", known["payload_hash"].combine_chunks().take(place))


def _known(connection: postgres.Connection, ids: pa.Array) -> pa.Table:
    query = sql.SQL(postgres.statement("claims_of_orders")).format(ids=sql.Literal(ids.to_pylist()))
    return postgres.copy_out(connection, query, _KNOWN)


def still_waiting(backlog: DataFrame, dsn: str) -> DataFrame:
    """Backlog rows whose order has gone nowhere since, as candidates for another try."""
    open_rows = backlog.mapInArrow(partial(_keep_waiting, dsn), backlog.schema)
    return (
        open_rows.drop("batch")
        .withColumns(
            {
                "waiting_since": F.col("decided_at"),
                "reasons": F.array().cast("array<string>"),
                "verdict": F.lit("candidate"),
                "from_backlog": F.lit(True),
            }
        )
        .drop("decided_at")
    )


def _keep_waiting(dsn: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with postgres.connect(dsn, autocommit=True) as connection:
        for batch in batches:
            query = sql.SQL(postgres.statement("orders_waiting")).format(
                ids=sql.Literal(batch.column("order_id").to_pylist())
            )
            waiting = postgres.copy_out(connection, query, _WAITING)
            yield batch.filter(pc.is_in(batch.column("order_id"), value_set=waiting["order_id"].combine_chunks()))
