"""The task that reloads shed events: runs batches on the resident driver until none is left."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException


def drain_pipeline(pipeline: str, run_id: str, most: timedelta) -> dict[str, Any]:
    """Drain one pipeline; skipped without shed events."""
    from etl import settings
    from etl.adapters import ledger
    from etl.errors import TerminalError
    from etl.pipeline.inspection.backlog import drain, waiting_for_time
    from etl.spark.runner.client import run_step
    from etl.stack import postgres

    own, until = settings.load(), time.monotonic() + most.total_seconds()

    def waiting() -> int:
        with ledger.reading(postgres.dsn(own), pipeline) as book:
            return waiting_for_time(book)

    def run_batch() -> int | None:
        batch: int | None = run_step(own, lambda: postgres.dsn(own), "micro_batch", pipeline, run_id)["batch"]
        return batch

    try:
        done = drain(pipeline, waiting, run_batch, lambda: time.monotonic() < until, print)
    except TerminalError as error:
        raise AirflowFailException(str(error)) from None
    if not done.before:
        raise AirflowSkipException("nothing waits for time")
    return done.as_json()
