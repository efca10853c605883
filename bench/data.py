"""The data set of the benchmarks: R as some 142 bytes per customer, and batches of thin orders over its keys.

    var/bench/  rows-10000000/pages/customers/      R as master pages
                rows-10000000/delta/                R as a Delta table (written by Spark, once)
                rows-10000000/orders/…parquet       orders, one file per batch
                rows-10000000/expected/…parquet     what the join of a batch must give
                postgres/                           R as a table, one per number of rows

Every row follows from its key, every batch from its number: a data set is made once and found again. What is
written aside is renamed when it is whole, so a run that was cut short leaves nothing that would be believed.
Hot keys lie anywhere in R: the key of each rank comes from a permutation.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.measured import progress
from etl.adapters import postgres
from etl.masters.pages.publish import Publisher
from etl.masters.pages.store import PageStore
from etl.masters.source import Snapshot
from etl.samples.zipf import BoundedZipf

KEY = "customer_id"
_CHUNK = 262_144
_SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
_REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
_NATIONS = [f"NATION {number}" for number in range(25)]
_DDL = """
    create unlogged table bench.{table} (
        customer_id bigint not null, name text, address text, nation text, region text, market_segment text,
        phone text, account_balance double precision, updated_at timestamptz)
"""


def customers(ids: np.ndarray) -> pa.RecordBatch:
    """The master rows of some keys."""
    text = pc.cast(pa.array(ids, pa.int64()), pa.string())
    mixed = _mixed(ids)

    def one_of(values: list[str], shift: int) -> pa.Array:
        return pa.array(values).take(pa.array((mixed >> np.uint64(shift)) % np.uint64(len(values))))

    return pa.record_batch(
        {
            KEY: pa.array(ids, pa.int64()),
            "name": pc.binary_join_element_wise("Customer#", pc.utf8_lpad(text, 9, "0"), ""),
            "address": pc.binary_join_element_wise(text, " Harbour Street, House ", text, ""),
            "nation": one_of(_NATIONS, 8),
            "region": one_of(_REGIONS, 20),
            "market_segment": one_of(_SEGMENTS, 32),
            "phone": pc.binary_join_element_wise("25-", pc.utf8_lpad(text, 12, "1"), ""),
            "account_balance": pa.array((mixed % np.uint64(1_000_000)) / 100.0),
            "updated_at": pa.array((1_600_000_000 + (mixed >> np.uint64(40)).astype(np.int64)) * 1_000_000).cast(
                pa.timestamp("us", "UTC")
            ),
        }
    )


def _mixed(ids: np.ndarray) -> np.ndarray:
    """Numbers that look random and are the same every time."""
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return mixed * np.uint64(0xBF58476D1CE4E5B9)


def chunks(rows: int) -> Iterator[pa.RecordBatch]:
    """All master rows in key order; keys are 1 … rows."""
    for start in range(1, rows + 1, _CHUNK):
        yield customers(np.arange(start, min(rows + 1, start + _CHUNK), dtype=np.int64))


@cache
def row_bytes() -> int:
    """What one master row takes in Arrow, on average."""
    some = customers(np.linspace(1, 10_000_000, 4096).astype(np.int64))
    return int(some.nbytes / some.num_rows)


@dataclass(frozen=True, slots=True)
class Draw:
    """One batch of orders: how many, how skewed, and which of many alike."""

    size: int
    zipf: float
    number: int

    @property
    def name(self) -> str:
        return f"zipf-{self.zipf:g}-{self.size}-{self.number}.parquet"


@dataclass(frozen=True, slots=True)
class DataSet:
    """R with a given number of rows, under a folder that is kept."""

    root: Path
    rows: int

    @property
    def folder(self) -> Path:
        return self.root / f"rows-{self.rows}"

    @property
    def bytes(self) -> int:
        """The size of R."""
        return self.rows * row_bytes()

    @property
    def pages(self) -> Path:
        return self.folder / "pages" / "customers"

    @property
    def delta(self) -> Path:
        return self.folder / "delta"

    @property
    def table(self) -> str:
        return f"bench.customers_{self.rows}"

    def publish(self) -> PageStore:
        """R as master pages."""
        store = PageStore(self.pages)
        if store.current() is None:
            progress(f"publishing {self.rows:,} rows as master pages")
            shutil.rmtree(self.pages, ignore_errors=True)
            self.pages.mkdir(parents=True)
            Publisher(store).publish(Snapshot(customers(np.arange(1)).schema, (KEY,), chunks(self.rows), {}, True))
        return store

    def load(self, dsn: str) -> None:
        """R as a Postgres table with a primary key, vacuumed."""
        aside = self.table.removeprefix("bench.") + "_new"
        with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("create schema if not exists bench")
            if _filled(cursor, self.table):
                return
            progress(f"loading {self.rows:,} rows into Postgres")
            cursor.execute(f"drop table if exists bench.{aside}, {self.table}")
            cursor.execute(_DDL.format(table=aside))
            for chunk in chunks(self.rows):
                postgres.copy_in(connection, f"bench.{aside}", pa.Table.from_batches([chunk]))
            cursor.execute(f"alter table bench.{aside} add primary key ({KEY})")
            cursor.execute(f"vacuum (analyze, freeze) bench.{aside}")
            cursor.execute(f"alter table bench.{aside} rename to {self.table.removeprefix('bench.')}")
            cursor.execute("checkpoint")

    def keys(self, draw: Draw) -> np.ndarray:
        """The keys of a batch."""
        return _law(self.rows, draw.zipf).sample(np.random.default_rng([draw.number, draw.size]), draw.size)

    def orders(self, draw: Draw) -> Path:
        """A batch of thin orders as a file of two row groups."""
        path = self.folder / "orders" / draw.name
        return path if path.exists() else _written(_thin(self.keys(draw)), path, -(-draw.size // 2))

    def expected(self, draw: Draw) -> Path:
        """What joining this batch must give, from the keys alone."""
        path = self.folder / "expected" / draw.name
        if path.exists():
            return path
        orders = _thin(self.keys(draw))
        found = customers(orders.column(KEY).to_numpy())
        for name in found.schema.names[1:]:
            orders = orders.append_column(name, found.column(name))
        return _written(orders, path, draw.size)


def _filled(cursor: postgres.Cursor, table: str) -> bool:
    """Whether a table is there with rows: an unlogged one is empty after a crash."""
    cursor.execute("select to_regclass(%s)", (table,))
    if cursor.fetchone() == (None,):
        return False
    cursor.execute(f"select exists (select from {table})")
    return cursor.fetchone() == (True,)


def _thin(keys: np.ndarray) -> pa.Table:
    ids = np.arange(len(keys), dtype=np.int64)
    return pa.table(
        {
            "order_id": ids,
            KEY: keys,
            "quantity": (ids % 9 + 1).astype(np.int32),
            "unit_price": (ids * 7919 % 100_000) / 100.0,
        }
    )


def _written(table: pa.Table, path: Path, group_rows: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(".new")
    pq.write_table(table, aside, row_group_size=max(1, group_rows))
    aside.rename(path)
    return path


@lru_cache(maxsize=1)  # at ten million keys a law takes 120 MB
def _law(rows: int, zipf: float) -> BoundedZipf:
    return BoundedZipf(rows, zipf, shuffle_seed=20)
