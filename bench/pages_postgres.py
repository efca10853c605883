"""Master pages from a real Postgres: publishing a whole table, and following its change log.

The table is a copy of R made for this and dropped afterwards: the steps change rows in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from bench.data import KEY, DataSet
from bench.measured import progress
from etl.adapters import postgres
from etl.masters.pages.publish import Publisher
from etl.masters.pages.store import PageStore
from etl.masters.postgres.source import PostgresMaster
from etl.settings import Settings
from etl.stack.postgres import embedded_postgres

_TABLE = "bench.changing"
_CHANGES = (100, 1_000, 10_000, 100_000)


@contextmanager
def server(settings: Settings, rows: int) -> Iterator[str]:
    """A Postgres with R and its change log; yields its DSN."""
    with embedded_postgres(settings) as dsn:
        data = DataSet(settings.var, rows)
        data.load(dsn)
        progress(f"copying {rows:,} rows to a table of their own")
        with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(postgres.statement("master_change_log"))
            cursor.execute(f"drop table if exists {_TABLE}")
            cursor.execute(f"create unlogged table {_TABLE} (like {data.table} including all)")
            cursor.execute(f"insert into {_TABLE} select * from {data.table}")
            cursor.execute(f"vacuum (analyze, freeze) {_TABLE}")
            cursor.execute(f"select master.keep_change_log('{_TABLE}', '{KEY}')")
            try:
                yield dsn
            finally:
                cursor.execute(f"drop table {_TABLE}")
                cursor.execute("delete from master.change_log where table_name = %s", (_TABLE,))


def publish(dsn: str, store: PageStore) -> dict[str, Any]:
    """The whole table in one snapshot, read back and checked."""
    manifest = Publisher(store).publish_from(_source(dsn))
    return {"rows": manifest.rows, "bytes_per_row": round(manifest.size_bytes / manifest.rows, 1)}


def refresh(dsn: str, store: PageStore, rows: int) -> dict[str, Any]:
    """Few and many changed rows: the cost must follow them, not the master."""
    rng, seconds = np.random.default_rng(3), {}
    for count in _CHANGES:
        keys = np.unique(rng.integers(1, rows + 1, count)).tolist()
        with postgres.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"update {_TABLE} set phone = phone || '1' where {KEY} = any(%s)", (keys,))
        began = time.perf_counter()
        Publisher(store).refresh_from(_source(dsn))
        seconds[f"{len(keys)} changes"] = round(time.perf_counter() - began, 3)
    return {"refresh_s": seconds, "overlays": len(store.manifest().overlays)}


def _source(dsn: str) -> PostgresMaster:
    return PostgresMaster(dsn, _TABLE, [KEY])
