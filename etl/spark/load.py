"""Load one decided batch: dimensions, then fact, quarantine and backlog, then the mart with the ledger row.

    staging(batch) ─▶ dim_customer ‖ dim_product ─▶ fact ‖ quarantine ‖ backlog ‖ COPY ─▶ one Postgres transaction

Every write is idempotent by batch, and the Postgres transaction comes last: until it commits the batch counts as not
loaded and the next run repeats what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from etl.adapters import mart
from etl.adapters.delta import Warehouse
from etl.adapters.ledger import Writer
from etl.errors import TerminalError
from etl.load import star as shape
from etl.model import BatchId
from warehouse import star
from warehouse.contract import Contract

_DIMENSIONS = {"customer": star.DIM_CUSTOMER, "product": star.DIM_PRODUCT}


def load(
    warehouse: Warehouse,
    dsn: str,
    writer: Writer,
    contract: Contract,
    batch: BatchId,
    clock: Callable[[], datetime],
) -> None:
    """Make a batch that passed the gate visible everywhere."""
    record = writer.ledger.get(batch)
    if record.state not in ("passed", "released"):
        raise TerminalError(f"batch {batch} is {record.state}; only a batch that passed the gate is loaded")
    first = writer.ledger.pending()
    if first is not None and first.batch != batch:
        raise TerminalError(f"batch {first.batch} was decided before {batch} and is loaded before it")
    counts = record.counts
    rows = staged(warehouse, batch).cache()
    try:
        accepted = rows.where("route = 'accepted'")
        _together(
            [
                partial(_load_dimension, warehouse, accepted, master.name, master.columns, batch)
                for master in contract.masters
            ]
        )
        writes: list[Callable[[], int | None]] = [
            partial(_copy, dsn, rows, batch),
            partial(warehouse.append, shape.facts(accepted), star.FACT_ORDERS, batch),
        ]
        if counts.quarantined:
            writes.append(partial(warehouse.append, _refused(rows), star.QUARANTINE, batch))
        if counts.backlog_added:
            writes.append(partial(warehouse.append, rows.where("route = 'backlog'"), star.BACKLOG, batch))
        copied = _together(writes)[0]
        mart.commit(dsn, writer, batch, clock(), expected_rows=copied or 0)
    finally:
        rows.unpersist()


def staged(warehouse: Warehouse, batch: BatchId) -> DataFrame:
    """What was decided about a batch."""
    return warehouse.read(star.STAGING).where(F.col("batch") == batch.number)


def _load_dimension(
    warehouse: Warehouse, accepted: DataFrame, master: str, columns: Sequence[str], batch: BatchId
) -> None:
    """Add the versions a batch met for the first time, and close the ones they follow."""
    table, key, natural = _DIMENSIONS[master], f"{master}_key", f"{master}_id"
    dimension = warehouse.read(table)
    known = dimension.select(F.col(natural).alias("known_id")).distinct()
    met = shape.versions(accepted, master, columns).join(dimension.select(key), key, "left_anti").cache()
    try:
        seen = met.join(known, met[natural] == known["known_id"], "left")
        totals = seen.agg(F.count("*"), F.count("known_id"), F.count_distinct(natural)).head()
        new, followers, keys = totals or (0, 0, 0)
        if new == 0:
            return
        if followers == 0 and keys == new:  # all are first versions: nothing has to be closed
            warehouse.append(shape.first_versions(met), table, batch)
            return
        chain = shape.history(met, dimension, master)
        merge = (
            warehouse.handle(table)
            .alias("old")
            .merge(chain.alias("new"), f"old.{key} = new.{key}")
            .whenMatchedUpdate(
                condition="not (old.valid_to <=> new.valid_to)",
                set={"valid_to": "new.valid_to", "is_current": "new.is_current"},
            )
            .whenNotMatchedInsertAll()
        )
        merge.execute()
    finally:
        met.unpersist()


def _refused(rows: DataFrame) -> DataFrame:
    text = F.make_valid_utf8(F.col("raw").cast("string"))
    return rows.where("route = 'quarantined'").withColumn("raw_text", text)


def _copy(dsn: str, rows: DataFrame, batch: BatchId) -> int:
    """Copy the claims and mart rows of the batch into its stage, partition by partition."""
    mart.make_stage(dsn, batch)
    # Refused lines stay out: they may hold values that Postgres cannot, such as the year 0.
    chosen = rows.where("route in ('accepted', 'backlog') or (route = 'quarantined' and from_backlog)").select(
        "order_id", "payload_hash", "route", F.try_element_at("reasons", F.lit(1)).alias("reason"),
        "from_backlog", "landed_at", "ordered_at",
        "customer_id", F.col("customer.name").alias("customer_name"), "customer.nation", "customer.region",
        "customer.market_segment", "product_id", F.col("product.name").alias("product_name"), "product.brand",
        "product.category", "quantity", "unit_price",
        (F.col("quantity") * F.col("unit_price")).cast("decimal(28,4)").alias("amount"),
    )  # fmt: skip
    copied = chosen.mapInArrow(partial(mart.copy_partition, dsn, mart.stage_of(batch)), "rows bigint")
    return int(copied.agg(F.sum("rows")).head()[0] or 0)


def _together(works: Sequence[Callable[[], int | None]]) -> list[int | None]:
    """Run independent writes side by side; a Delta commit leaves cores idle that another can use."""
    with ThreadPoolExecutor(max_workers=len(works)) as pool:
        return [future.result() for future in [pool.submit(work) for work in works]]
