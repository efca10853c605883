"""Ad-hoc queries as a user runs them: files land, a micro-batch ingests, joins, decides and loads, for all of them.

Everything that a micro-batch does is in the time: the stream log, the ledger in an embedded Postgres, a Delta table per
query. A micro-batch is one slot of every stream.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.adhoc.workload import ATTRIBUTES, STREAMS, make_slot
from etl import settings as configuration
from etl.adapters import postgres
from etl.correlate.adhoc.query.model import Query
from etl.settings import PROJECT, Settings
from etl.streams.adhoc.registry import Asked, QueryRegistry
from etl.streams.adhoc.service import Queries, limits_of
from etl.streams.microbatch import Executor
from etl.streams.steps import CorrelationSteps

SLOT_S = 10
START = datetime(2026, 1, 1, tzinfo=UTC)
_STREAM = """
name = "{name}"
future = "36500d"
[stream]
source = {{ landing = "landing/{name}", format = "parquet" }}
event_time = "t"
[stream.fields]
{fields}
t = "timestamp"
"""


def declared(home: Path) -> Settings:
    """The streams of the workload in files of their own."""
    fields = "\n".join(f'a{n} = "bigint"' for n in range(ATTRIBUTES))
    (home / "correlations").mkdir(parents=True)
    (home / "streams").mkdir()
    for name in STREAMS:
        (home / "streams" / f"{name}.toml").write_text(_STREAM.format(name=name, fields=fields))
    places = {name: home / name for name in ("warehouse", "archive", "streams", "correlations")}
    return configuration.load(
        home=home, var=home / "var", jars=PROJECT / "var" / "jars", postgres_dsn=None, spark_jit="full",
        batch_bytes=2**40, query_slot_s=SLOT_S, queries_most=5_000, queries_most_per_owner=5_000, **places,
    )  # fmt: skip


def slot_files(folder: Path, slot: int, rows: int, seed: int = 7) -> dict[str, Path]:
    """One micro-batch as Parquet files, a stream each; the same for every contender."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, table in make_slot(slot, rows, seed).items():
        path = folder / f"{name}-{slot:05d}-{rows}-{seed}.parquet"
        if not path.exists():
            first = START + timedelta(seconds=SLOT_S * slot)
            spread = [first + timedelta(microseconds=SLOT_S * 1_000_000 * at // rows) for at in range(rows)]
            whole = table.append_column("t", pa.array(spread, pa.timestamp("us", "UTC")))
            pq.write_table(whole, path.with_suffix(".new"))
            path.with_suffix(".new").rename(path)
        found[name] = path
    return found


class People:
    """Those who ask for queries and drop them."""

    def __init__(self, settings: Settings, dsn: str) -> None:
        self.settings, self.dsn = settings, dsn

    def create(self, queries: Sequence[Query], *, prefix: str = "") -> None:
        """As `frontstage query create` does it, on one connection."""
        now = datetime.now(UTC)
        with postgres.connect(self.dsn, autocommit=True) as connection:
            registry = QueryRegistry(connection)
            for one in queries:
                within = timedelta(seconds=SLOT_S * one.window)
                asked = Asked(prefix + one.name, "bench", one.sql, within, now + timedelta(days=1))
                registry.create(asked, datetime.now(UTC), limits_of(self.settings))

    def delete(self, names: Sequence[str]) -> None:
        with postgres.connect(self.dsn, autocommit=True) as connection:
            registry = QueryRegistry(connection)
            for name in names:
                registry.delete(name, "bench", datetime.now(UTC))


class Ours(People):
    """One site on an executor. Its database is somebody else's."""

    def __init__(self, settings: Settings, dsn: str, executor: Executor) -> None:
        super().__init__(settings, dsn)
        self.steps = CorrelationSteps(settings, dsn, executor)
        self.steps.prepare()
        self.queries = Queries(settings, dsn)
        self.slot = 0

    def land(self, files: dict[str, Path]) -> None:
        for name, path in files.items():
            folder = self.settings.var / "landing" / name
            folder.mkdir(parents=True, exist_ok=True)
            os.link(path, folder / path.name)

    def run(self) -> dict[str, Any]:
        """One micro-batch; `wall_s` is what it took from landing to tables."""
        start = time.perf_counter()
        result = self.steps.run("micro_batch", f"slot-{self.slot}", None, lambda _line: None)
        self.slot += 1
        return {**result, "wall_s": time.perf_counter() - start}

    def deployments(self) -> list[dict[str, Any]]:
        """How long every query waited for its effect, in seconds and in micro-batches that began meanwhile."""
        with postgres.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(
                "select q.name, extract(epoch from q.deployed_at - q.created_at), (select count(*) from etl.batch b "
                "where b.started_at > q.created_at and b.batch < q.created_batch) "
                "from etl.query q where q.created_batch is not null"
            )
            return [
                {"name": name, "deployment_s": float(seconds), "batches_waited": int(waited)}
                for name, seconds, waited in cursor.fetchall()
            ]
