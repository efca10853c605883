"""The Postgres side of *plain*: master tables, and a mart with a primary key that partitions COPY into."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import psycopg2
import pyarrow as pa
import pyarrow.csv
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SEED, PRODUCTS = 1, 20_000
_CHUNK = 250_000
_DDL = """
    drop schema if exists master cascade; drop schema if exists mart cascade;
    create schema master; create schema mart;
    create table master.customers (
        customer_id bigint primary key, name text not null, address text not null, nation text not null,
        region text not null, market_segment text not null, phone text not null,
        account_balance numeric(12, 2) not null);
    create table master.products (
        product_id bigint primary key, name text not null, brand text not null, category text not null,
        size integer not null, container text not null, retail_price numeric(12, 2) not null);
    create table mart.orders (
        order_id bigint primary key, ordered_at timestamptz not null, order_date date not null,
        customer_id bigint not null, customer_name text not null, nation text not null, region text not null,
        market_segment text not null,
        product_id bigint not null, product_name text not null, brand text not null, category text not null,
        quantity integer not null, unit_price numeric(18, 4) not null, amount numeric(28, 4) not null,
        batch bigint not null);
    create index on mart.orders (order_date);
"""
_COLUMNS = (
    "order_id", "ordered_at", "order_date", "customer_id", "customer_name", "nation", "region", "market_segment",
    "product_id", "product_name", "brand", "category", "quantity", "unit_price", "amount", "batch",
)  # fmt: skip


def prepare(dsn: str, customers: int) -> None:
    """Empty tables, then the master rows."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(_DDL)
        load_masters(connection, customers)
        cursor.execute("analyze master.customers; analyze master.products")


def load_masters(connection: Any, customers: int) -> None:
    """The generator's customers and products, by COPY into tables that hold none of them."""
    from etl.samples import customers as make_customers
    from etl.samples import products as make_products

    made: tuple[tuple[str, int, Callable[..., pa.Table]], ...] = (
        ("master.customers", customers, make_customers),
        ("master.products", PRODUCTS, make_products),
    )
    for table, count, make in made:
        for first in range(1, count + 1, _CHUNK):
            keys = np.arange(first, min(first + _CHUNK, count + 1), dtype=np.int64)
            rows = make(SEED, keys)
            copy_in(connection, table, tuple(rows.column_names), rows)


def copy_in(connection: Any, table: str, columns: tuple[str, ...], rows: pa.Table | pa.RecordBatch) -> None:
    """Arrow to CSV to COPY: no Python object per row."""
    buffer = io.BytesIO()
    pyarrow.csv.write_csv(rows, buffer, pyarrow.csv.WriteOptions(include_header=False))
    buffer.seek(0)
    with connection.cursor() as cursor:
        cursor.copy_expert(f"copy {table} ({', '.join(columns)}) from stdin (format csv)", buffer)


def copy(accepted: DataFrame, dsn: str) -> None:
    """COPY the rows to the mart, each partition over a connection of its own."""
    rows = accepted.withColumn("order_date", F.to_date("ordered_at")).select(*_COLUMNS)
    rows.mapInArrow(partial(_copy_partition, dsn), "rows bigint").agg(F.sum("rows")).collect()


def _copy_partition(dsn: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    copied = 0
    with closing(psycopg2.connect(dsn)) as connection, connection:
        for batch in batches:
            copy_in(connection, "mart.orders", _COLUMNS, batch)
            copied += batch.num_rows
    yield pa.RecordBatch.from_pydict({"rows": pa.array([copied], pa.int64())})


def count(dsn: str) -> int:
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("select count(*) from mart.orders")
        (found,) = cursor.fetchone() or (0,)
    return int(found)
