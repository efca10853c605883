"""The warehouse's Delta tables, as data: their columns, how they are laid out, and what they are for.

staging      one commit per batch: every line with its route. The decision; everything else is derived from it.
fact_orders  one row per accepted order, with the surrogate keys of the dimension rows it met
dim_*        customers and products with history (SCD2); dates
quarantine   refused lines: raw bytes and reasons
backlog      orders that wait for a master row; append-only, "open" is computed
"""

from __future__ import annotations

from dataclasses import dataclass

_CUSTOMER = (
    "name STRING, address STRING, nation STRING, region STRING, market_segment STRING, phone STRING, "
    "account_balance DECIMAL(12,2)"
)
_PRODUCT = "name STRING, brand STRING, category STRING, size INT, container STRING, retail_price DECIMAL(12,2)"
_ORDER = (
    "order_id BIGINT, customer_id BIGINT, product_id BIGINT, quantity INT, unit_price DECIMAL(18,4), "
    "ordered_at TIMESTAMP"
)
_HISTORY = "valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN"
_ORIGIN = "source_file STRING, landed_at TIMESTAMP"


@dataclass(frozen=True, slots=True)
class DeltaTable:
    """One table: `columns` is Spark DDL."""

    name: str
    columns: str
    partitioned_by: tuple[str, ...] = ()
    statistics: bool = True  # per-file minima and maxima: worth their cost only where people query


STAGING = DeltaTable(
    "staging",
    f"batch BIGINT, {_ORDER}, payload_hash BIGINT, route STRING, reasons ARRAY<STRING>, raw BINARY, {_ORIGIN}, "
    f"from_backlog BOOLEAN, decided_at TIMESTAMP, "
    f"customer STRUCT<{_CUSTOMER}, updated_at TIMESTAMP>, product STRUCT<{_PRODUCT}, updated_at TIMESTAMP>, "
    "customer_hit BOOLEAN, product_hit BOOLEAN, customer_version BIGINT, product_version BIGINT",
    ("batch",),
    statistics=False,
)
FACT_ORDERS = DeltaTable(
    "fact_orders",
    f"{_ORDER}, amount DECIMAL(28,4), date_key INT, customer_key BIGINT, product_key BIGINT, batch BIGINT, "
    "landed_at TIMESTAMP",
)
DIM_CUSTOMER = DeltaTable("dim_customer", f"customer_key BIGINT, customer_id BIGINT, {_CUSTOMER}, {_HISTORY}")
DIM_PRODUCT = DeltaTable("dim_product", f"product_key BIGINT, product_id BIGINT, {_PRODUCT}, {_HISTORY}")
DIM_DATE = DeltaTable(
    "dim_date",
    "date_key INT, date DATE, year INT, quarter INT, month INT, day INT, iso_week INT, weekday INT, is_weekend BOOLEAN",
)
QUARANTINE = DeltaTable(
    "quarantine",
    f"batch BIGINT, order_id BIGINT, reasons ARRAY<STRING>, raw BINARY, raw_text STRING, {_ORIGIN}, "
    "decided_at TIMESTAMP",
    statistics=False,
)
BACKLOG = DeltaTable(
    "backlog",
    f"batch BIGINT, {_ORDER}, payload_hash BIGINT, reasons ARRAY<STRING>, raw BINARY, {_ORIGIN}, decided_at TIMESTAMP",
    ("batch",),
    statistics=False,
)

TABLES = (STAGING, FACT_ORDERS, DIM_CUSTOMER, DIM_PRODUCT, DIM_DATE, QUARANTINE, BACKLOG)
