"""A site for tests of correlations: streams and correlations declared in a folder, tuples to land, tables to read."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from etl import settings as configuration
from etl.adapters import postgres
from etl.pipeline.process_state import process_state
from etl.settings import PROJECT, Settings
from etl.streams.microbatch import Executor
from etl.streams.steps import CorrelationSteps
from etl.streams.storage.files import open_files
from tests.support.correlate_histories import EPOCH

FIELDS = """
id = "bigint"
k = { type = "bigint", required = false }
s = { type = "string", required = false }
x = { type = "int", required = false }
d = { type = "decimal(12,2)", required = false }
f = { type = "double", required = false }
t = "timestamp"
"""


class Ended(Exception):
    """Stands for the end of the process at a checkpoint."""


def quiet(_: str) -> None:
    """Progress a test does not look at."""


@dataclass(frozen=True)
class StreamSite:
    """Declared streams l, r and u, correlations as a test declares them, and what becomes of landed tuples."""

    steps: CorrelationSteps
    settings: Settings
    dsn: str

    @classmethod
    def under(cls, home: Path, dsn: str, executor: Executor) -> StreamSite:
        for folder in ("streams", "correlations"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        own = configuration.load(
            home=home, jars=PROJECT / "var" / "jars", streams=home / "streams", correlations=home / "correlations"
        )
        site = cls(CorrelationSteps(own, dsn, executor, clock=lambda: EPOCH + dt.timedelta(days=1)), own, dsn)
        for name in ("l", "r", "u"):
            site.declare_stream(name)
        return site

    def declare_stream(self, name: str, extra: str = "", fields: str = FIELDS) -> None:
        text = f'{extra}\n[stream]\nsource = {{ landing = "landing/{name}" }}\nkey = ["id"]\nevent_time = "t"\n'
        (self.settings.streams / f"{name}.toml").write_text(f"{text}[stream.fields]\n{fields}")

    def declare(self, name: str, sql: str, **options: Any) -> None:
        lines = [f"{key} = {json.dumps(value)}" for key, value in options.items() if value is not None]
        text = "\n".join([*lines, f'sql = """\n{sql}\n"""'])
        (self.settings.correlations / f"{name}.toml").write_text(text)

    def land(self, stream: str, name: str, rows: Iterable[dict[str, Any] | bytes]) -> None:
        folder = self.settings.var / "landing" / stream
        folder.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, bytes) else json.dumps(row, default=_plain).encode() for row in rows]
        if lines:
            (folder / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))

    def run(self) -> dict[str, Any]:
        return self.steps.run("micro_batch", "test", None, quiet)

    def table(self, correlation: str, table: str = "results") -> pa.Table:
        return DeltaTable(str(self.settings.warehouse / "correlations" / correlation / table)).to_pyarrow_table()

    def quarantine(self, stream: str) -> pa.Table:
        return DeltaTable(str(self.settings.warehouse / "streams" / stream / "quarantine")).to_pyarrow_table()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with postgres.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def execute(self, statement: str) -> None:
        with postgres.connect(self.dsn, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def ending(self, checkpoint: str) -> StreamSite:
        """The same site, whose next run ends at a checkpoint as if the process had been killed there."""

        def reached(name: str) -> None:
            if name == checkpoint:
                raise Ended(name)

        return self.watching(reached)

    def watching(self, reached: Callable[[str], None]) -> StreamSite:
        return replace(self, steps=replace(self.steps, checkpoint=reached))

    def restarted(self) -> StreamSite:
        """The same site in what might be another process."""
        process_state()._logs.clear()
        process_state()._appenders.clear()
        process_state().prepared.clear()
        open_files().clear()
        return self


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.isoformat()
    assert isinstance(value, Decimal), f"{value!r} is not JSON"
    return float(value)
