"""Master data into Postgres, by COPY.

    Arrow table ──CSV, by Arrow──► COPY target                      plain: rows must be new
                               └─► COPY temporary table ─► upsert   with `key`: may be run again and again

An upsert touches only rows that differ, and stamps those strictly later than they were, so that whoever
follows `updated_at` sees every change and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
from psycopg2 import sql

from etl.adapters.postgres import Connection, copy_in, identifier
from etl.samples import draws
from etl.samples.config import MOST_KEYS, OrderConfig, late_customers, require
from etl.samples.draws import Keys
from etl.samples.master import customers as make_customers
from etl.samples.master import products as make_products

Progress = Callable[[str, int, int], None]
"""Called with the kind of rows, the number done, and the total."""

ROWS_PER_COPY = 100_000
STAMP = "updated_at"


def silent(what: str, done: int, total: int) -> None:
    """The default progress callback: does nothing."""


def copy_into(connection: Connection, name: str, table: pa.Table, *, key: str | None = None) -> int:
    """Copy rows into `schema.table`; with `key`, update those already there. Returns the rows written.

    The transaction is the caller's; with `key` there has to be one (no autocommit).
    """
    if key is None:
        return copy_in(connection, name, table)
    incoming = "incoming_rows"
    parts = {
        "incoming": sql.Identifier(incoming),
        "target": identifier(name),
        "columns": _names(table.column_names),
    }
    empty = "create temporary table {incoming} on commit drop as select {columns} from {target} with no data"
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL(empty).format(**parts))
        copy_in(connection, incoming, table)
        cursor.execute(_upsert(name, incoming, table.column_names, key))
        written = cursor.rowcount
        cursor.execute(sql.SQL("drop table {incoming}").format(**parts))
    return written


def generate_master(
    connection: Connection, seed: int, customers: int, products: int, progress: Progress = silent
) -> tuple[int, int]:
    """Upsert customers 1 … n and products 1 … m, a commit per 100,000 rows. Returns how many rows changed.

    Customers who had moved (`touch_customers`) are back in their first house afterwards.
    """
    require(1 <= customers <= MOST_KEYS, "customers", customers, f"1 to {MOST_KEYS:,}")
    require(1 <= products <= MOST_KEYS, "products", products, f"1 to {MOST_KEYS:,}")
    changed = {"customers": 0, "products": 0}
    for what, count, make in (
        ("customers", customers, make_customers),
        ("products", products, make_products),
    ):
        for keys in _chunks(np.arange(1, count + 1, dtype=np.int64)):
            with connection:
                changed[what] += copy_into(connection, f"master.{what}", make(seed, keys), key=f"{what[:-1]}_id")
            progress(what, int(keys[-1]), count)
    return changed["customers"], changed["products"]


def touch_customers(connection: Connection, seed: int, customers: int, share: float, *, version: int) -> Keys:
    """Let a share of customers 1 … n move house; the same (seed, version) always moves the same ones, once.

    Returns their keys. Version 0 is how they were made, so versions start at 1.
    """
    require(0 <= share <= 1, "share", share, "a share from 0 to 1")
    require(version >= 1, "version", version, "1 or more; 0 is how customers were first made")
    keys = np.arange(1, customers + 1, dtype=np.int64)
    moving = keys[draws.uniform(seed, f"who moves, version {version}", keys) < share]
    for chunk in _chunks(moving):
        with connection:
            copy_into(
                connection,
                "master.customers",
                make_customers(seed, chunk, version=version),
                key="customer_id",
            )
    return moving


def arrive_late_customers(connection: Connection, config: OrderConfig) -> int:
    """The customers whose orders came first arrive. Returns how many were not there yet."""
    arrived = 0
    for keys in _chunks(late_customers(config)):
        with connection:
            arrived += copy_into(connection, "master.customers", make_customers(config.seed, keys), key="customer_id")
    return arrived


def _chunks(keys: Keys) -> Iterator[Keys]:
    for first in range(0, len(keys), ROWS_PER_COPY):
        yield keys[first : first + ROWS_PER_COPY]


def _upsert(target: str, incoming: str, columns: list[str], key: str) -> sql.Composed:
    facts = [column for column in columns if column not in (key, STAMP)]
    # Strictly later even after a clock was set back; a stamp that is given can only lift it.
    given = sql.SQL(", excluded.{}").format(sql.Identifier(STAMP)) if STAMP in columns else sql.SQL("")
    return sql.SQL(
        "insert into {target} as old ({columns}) select {columns} from {incoming} "
        "on conflict ({key}) do update set ({facts}, {stamp}) = "
        "row({new_facts}, greatest(statement_timestamp(), old.{stamp} + interval '1 microsecond'{given})) "
        "where row({old_facts}) is distinct from row({new_facts})"
    ).format(
        target=identifier(target),
        incoming=identifier(incoming),
        columns=_names(columns),
        key=sql.Identifier(key),
        facts=_names(facts),
        stamp=sql.Identifier(STAMP),
        given=given,
        new_facts=_names(facts, "excluded"),
        old_facts=_names(facts, "old"),
    )


def _names(columns: list[str], table: str | None = None) -> sql.Composed:
    parts = [sql.Identifier(column) if table is None else sql.Identifier(table, column) for column in columns]
    return sql.SQL(", ").join(parts)
