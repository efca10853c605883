"""The demo of correlations: waves of orders, payments and shipments, run by Airflow, compared with an oracle.

    stack up ─▶ wave ─▶ DAG run ─▶ … ─▶ tables and the raw files' truth compared ─▶ summary.json ─▶ everything stopped

It lives under `var/demo-correlations` and starts from an empty warehouse every time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from etl.adapters import postgres
from etl.contract.correlations.correlation import Correlation
from etl.errors import TerminalError
from etl.samples import seed
from etl.samples.correlations import raw
from etl.samples.correlations.config import ShopConfig
from etl.samples.correlations.oracle import Asked, History, Truth, same_rows, truth
from etl.samples.correlations.waves import Landed, waves
from etl.samples.demo import Reporter
from etl.settings import Settings
from etl.stack.airflow.client import Airflow
from etl.stack.stack import Stack
from etl.streams.declared import Catalog, catalog
from etl.streams.steps import CorrelationSteps
from etl.streams.tasks.in_process import InProcess

DAG = "correlations"
RUN_S = 240.0
Waves = Sequence[Mapping[str, Landed]]


class Different(TerminalError):
    """A correlation's rows differ from the oracle's, or a run failed."""


@dataclass(frozen=True, slots=True)
class Found:
    """The actual results of one correlation."""

    rows: pa.Table
    pairs: int
    late: int


def run(settings: Settings, config: ShopConfig, reporter: Reporter) -> dict[str, Any]:
    """Run the demonstration and return its summary, which is also in `summary.json`."""
    start = datetime.now(UTC) - config.waves * config.lasting
    reporter.doing("starting Postgres, Spark and Airflow")

    def on_postgres(dsn: str) -> None:
        seed.clean(settings)  # here, because only the holder of the lock may remove files
        seed.forget(dsn)
        postgres.migrate(dsn)

    landed: list[Mapping[str, Landed]] = []
    with Stack(settings, on_postgres=on_postgres, progress=reporter.say) as stack, stack.airflow() as airflow:
        airflow.wait_for_dag(DAG)
        airflow.unpause(DAG)
        for wave in waves(config, start, settings.var / "landing"):
            landed.append(wave)
            lines = sum(one.lines for one in wave.values())
            reporter.say(f"wave {len(landed)} of {config.waves}: {lines:,} tuples of {len(wave)} streams landed")
            _run_wave(airflow, reporter, lines)
        reporter.doing("asking DuckDB about the raw files")
        summary = _summary(settings, stack.postgres_dsn, landed)
        reporter.doing("stopping everything")
    _write(settings, summary)
    _require_equal(summary)
    return summary


def _run_wave(airflow: Airflow, reporter: Reporter, lines: int) -> None:
    """Let Airflow process a wave, as if triggered from its UI."""
    run_id = airflow.trigger(DAG)
    reporter.doing(f"Airflow runs the micro-batch of {lines:,} tuples")
    done = airflow.wait(DAG, run_id, timeout_s=RUN_S)
    reporter.say(f"DAG run {run_id}: {done.state} in {done.seconds or 0:.1f} s")
    if done.state != "success":
        raise Different(f"DAG run {run_id} is {done.state}; see var/demo-correlations/logs")


def _summary(settings: Settings, dsn: str, landed: Waves) -> dict[str, Any]:
    """Every correlation's tables compared with the oracle."""
    declared = catalog(settings)
    batches = CorrelationSteps(settings, dsn, InProcess()).history(len(landed) + 1)
    seconds = sum(sum(batch["seconds"].values()) for batch in batches)
    streams = histories(settings, declared, landed)
    return {
        "correlations": [
            {**compared(one, _found(settings, dsn, one, batches), streams), "batches": len(batches),
             "seconds": round(seconds, 1)}
            for one in declared.correlations
        ]
    }  # fmt: skip


def compared(declared: Correlation, found: Found, streams: Mapping[str, History]) -> dict[str, Any]:
    """Compare a correlation's results with the oracle: rows, pairs and late tuples."""
    wanted: Truth = truth(Asked(declared.sql, declared.within, declared.lateness), streams)
    late = sum(wanted.late.values())
    equal = same_rows(found.rows, wanted.rows) and (found.pairs, found.late) == (wanted.pairs, late)
    return {"name": declared.name, "pairs": found.pairs, "oracle_pairs": wanted.pairs, "equal": equal,
            "late": found.late}  # fmt: skip


def histories(settings: Settings, declared: Catalog, landed: Waves) -> dict[str, History]:
    """The content of the raw files, a batch per wave. Files are in the landing folder or archived."""
    now = datetime.now(UTC)
    found = {}
    for one in declared.streams:
        waves = [wave[one.name].file for wave in landed if one.name in wave]
        if waves:
            batches = [raw.read([_where(settings, file)], one.stream.fields, one.rules, now).events for file in waves]
            found[one.name] = History(batches, one.event_time)
    return found


def _where(settings: Settings, file: Path) -> Path:
    return file if file.exists() else next(settings.archive.rglob(f"*{file.name}"))


def _found(settings: Settings, dsn: str, declared: Correlation, batches: Sequence[Mapping[str, Any]]) -> Found:
    home = settings.warehouse / "correlations" / declared.name
    pairs = sum(batch["correlations"][declared.name]["pairs"] for batch in batches)
    late = DeltaTable(home / "late").to_pyarrow_table().num_rows
    if DeltaTable.is_deltatable(str(home / "results")):
        rows = DeltaTable(home / "results").to_pyarrow_table()
        return Found(rows, rows.num_rows, late)
    return Found(_groups(dsn, declared.name), pairs, late)


def _groups(dsn: str, name: str) -> pa.Table:
    """The groups of a correlation, from Postgres."""
    with postgres.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute(f'select * from correlation."{name}"')  # noqa: S608 (a declared name)
        names = [column.name for column in cursor.description or ()]
        rows = cursor.fetchall()
    return pa.table({column: pa.array([row[at] for row in rows]) for at, column in enumerate(names)})


def _require_equal(summary: Mapping[str, Any]) -> None:
    different = [one["name"] for one in summary["correlations"] if not one["equal"]]
    if different:
        raise Different(f"{', '.join(different)}: the tables do not hold what the raw files say; see summary.json")


def _write(settings: Settings, summary: Mapping[str, Any]) -> None:
    draft = settings.var / "summary.json.new"
    draft.write_text(json.dumps(summary, indent=2) + "\n")
    draft.replace(settings.var / "summary.json")
