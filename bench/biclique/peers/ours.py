"""Correlations on Spark as a user runs them: files land, a micro-batch ingests, joins, decides and loads.

Everything that a micro-batch does is in the time: the stream log, the ledger in an embedded Postgres, the Delta commit
of the results. Spark compiles as that of the peers does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from bench.biclique.peers.data import CONDITIONS, WINDOW_S, Kind, Step
from etl import settings as configuration
from etl.settings import PROJECT, Settings
from etl.spark.correlate import SparkCorrelations
from etl.spark.session import spark_session
from etl.stack.postgres import embedded_postgres
from etl.streams.steps import CorrelationSteps

_STREAM = """
name = "{side}"
future = "36500d"
[stream]
source = {{ landing = "landing/{side}", format = "parquet" }}
event_time = "t"
[stream.fields]
id = "bigint"
k = "bigint"
v = "bigint"
note = "string"
t = "timestamp"
"""
_CORRELATION = """
name = "pairs"
within = "{window} seconds"
units = {units}
sql = '''
select r.id as r_id, s.id as s_id, r.note as r_note, s.note as s_note
from r join s on {condition}
'''
"""


class Ours:
    def __init__(self, kind: Kind, home: Path) -> None:
        self._settings = declared(kind, home)
        self._open = ExitStack()
        dsn = self._open.enter_context(embedded_postgres(self._settings))
        spark = self._open.enter_context(spark_session(self._settings))
        self._steps = CorrelationSteps(self._settings, dsn, SparkCorrelations(spark))
        self._steps.prepare()

    def run(self, step: Step) -> None:
        for side, file in step.files.items():
            folder = self._settings.var / "landing" / side
            folder.mkdir(parents=True, exist_ok=True)
            os.link(file, folder / file.name)
        self._steps.run("micro_batch", step.name, None, lambda _line: None)

    def pairs(self) -> Iterable[pa.Table]:
        table = DeltaTable(self._settings.warehouse / "correlations" / "pairs" / "results")
        yield table.to_pyarrow_table(columns=["r_id", "s_id"])

    def close(self) -> None:
        self._open.close()


def declared(kind: Kind, home: Path) -> Settings:
    """Two streams and one correlation in files of their own."""
    units = len(os.sched_getaffinity(0))
    correlation = _CORRELATION.format(window=WINDOW_S, units=units, condition=CONDITIONS[kind])
    files = {f"streams/{side}.toml": _STREAM.format(side=side) for side in ("r", "s")}
    for name, text in {**files, "correlations/pairs.toml": correlation}.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    places = {name: home / name for name in ("warehouse", "archive", "streams", "correlations")}
    return configuration.load(
        home=home, var=home / "var", jars=PROJECT / "var" / "jars", postgres_dsn=None, spark_jit="full",
        batch_bytes=2**40, **places,
    )  # fmt: skip
