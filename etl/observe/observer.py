"""Reports every batch to the configured sinks, without failing or delaying it."""

from __future__ import annotations

import queue
import threading
from typing import Any

import httpx
import structlog

from etl.contract.model import Pipeline
from etl.observe import lineage
from etl.observe.facts import BatchFacts
from etl.observe.telemetry import Telemetry
from etl.settings import Settings

log = structlog.get_logger("batch")
_TIMEOUT_S = 5.0
_QUEUED = 1000


class Observer:
    """One per process that runs batches."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._telemetry = Telemetry.in_mode(settings.telemetry)
        self._observed: dict[str, tuple[int, str]] = {}
        self._events: queue.Queue[dict[str, Any]] = queue.Queue(_QUEUED)
        if settings.openlineage_url is not None:
            threading.Thread(target=self._send_all, name="openlineage", daemon=True).start()

    def __call__(self, facts: BatchFacts, pipeline: Pipeline) -> None:
        """Write the log line and send to the configured sinks; not repeated when a report is rewritten."""
        if self._observed.get(facts.pipeline) == (facts.batch, facts.state):
            return
        self._observed[facts.pipeline] = (facts.batch, facts.state)
        log.info("batch", **facts.as_line())
        try:
            if self._telemetry is not None:
                self._telemetry.record(facts)
            if self._settings.openlineage_url is not None:
                own = self._settings
                self._events.put_nowait(lineage.event(facts, pipeline, own.warehouse, own.var))
        except Exception:
            log.warning("batch could not be observed", pipeline=facts.pipeline, batch=facts.batch, exc_info=True)

    def _send_all(self) -> None:
        """Send events in order; an event that fails is dropped."""
        url = str(self._settings.openlineage_url).rstrip("/") + "/api/v1/lineage"
        while True:
            event = self._events.get()
            try:
                httpx.post(url, json=event, timeout=_TIMEOUT_S).raise_for_status()
            except Exception as error:  # this thread is never restarted
                log.warning("lineage event dropped", job=event["job"]["name"], reason=type(error).__name__)

    def close(self) -> None:
        """Send the metrics and traces that are left."""
        if self._telemetry is not None:
            self._telemetry.close()
