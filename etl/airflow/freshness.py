"""Alerts for runs that are not done within the declared freshness: a log line, and a notifier (ADR 100).

    run queued ── freshness ──▶ still not done? ──▶ triggerer: too_late ──┬─ one structured line in its log
       (events have landed)      (the scheduler asks)                     └─ FRONTSTAGE_ALERT_NOTIFIER, if it is set

Airflow's deadline starts when a run is queued. With the schedule `on_arrival` that is when events have
landed. A run that fails is never done in time. Where no run is queued at all, `frontstage doctor` says why.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import structlog
from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from etl.airflow.notify import alert_notifiers, notify

if TYPE_CHECKING:
    from etl.contract.model import Pipeline

log = structlog.get_logger("freshness")


def freshness_alert(pipeline: Pipeline) -> DeadlineAlert | None:
    """The deadline that Airflow monitors; None unless the pipeline's file declares a freshness."""
    if pipeline.freshness is None:
        return None
    arguments = {"pipeline": pipeline.name, "freshness_s": pipeline.freshness.total_seconds()}
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=pipeline.freshness,
        callback=AsyncCallback(too_late, arguments),
        name=f"{pipeline.name} is not fresh",
    )


async def too_late(pipeline: str, freshness_s: float, context: dict[str, Any]) -> None:
    """Called by the triggerer when a run was not done in time."""
    run = context["dag_run"]
    why = await asyncio.to_thread(_why, pipeline)
    sentence = f"{pipeline} is not fresh: run {run['dag_run_id']} was not done within {freshness_s:g} s; {why}"
    facts = {"pipeline": pipeline, "freshness_s": freshness_s, "run_id": run["dag_run_id"], "state": run["state"]}
    log.warning("not fresh", **facts, why=why)
    for notifier in alert_notifiers():
        await notify(notifier, {**context, "frontstage": {**facts, "why": why, "sentence": sentence}})


def _why(pipeline: str) -> str:
    """The current diagnosis of `frontstage doctor`: events may have been loaded meanwhile."""
    from etl import settings
    from etl.adapters import ledger
    from etl.contract.load import load_all
    from etl.errors import FrontstageError
    from etl.pipeline.inspection.diagnosis import diagnose, gather
    from etl.stack import postgres

    own = settings.load()
    declared = [one for one in load_all(own.pipelines, own.var).pipelines if one.name == pipeline]
    try:
        with ledger.reading(postgres.dsn(own), pipeline) as book:
            facts = [gather(one, one.stream.source.landing, book, datetime.now(UTC)) for one in declared]
    except FrontstageError as error:
        return f"the ledger cannot be asked why ({error})"
    return "; ".join(one.what for each in facts for one in diagnose(each)) or "its file is gone"
