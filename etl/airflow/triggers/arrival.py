"""An asset watcher for arriving events: it fires only when there is input for a run of the pipeline.

    landing folder, topic ── listed twice a second ── changed, or time has passed? ──▶ look (etl.pipeline.input.arrival)
         due? ── no progress since the last event? back off ──▶ event ──▶ a run of the DAG

Whether a run is due depends on the folder and the ledger, not on memory, so a restart of the triggerer changes nothing.
An event whose run has changed nothing in the ledger (it failed, or the DAG cannot start one) is repeated at growing
intervals, so that a fault costs one failed run per minute, and recovery is automatic.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

import structlog
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from etl.adapters.kafka.broker import Broker
from etl.contract.model import Pipeline, Topic
from etl.errors import FrontstageError
from etl.pipeline.input.arrival import Arrival, Look, Mark, WatchedMaster, WatchedTopic
from etl.pipeline.input.topic_input import access_of
from etl.settings import Settings

_AGAIN_S = 5.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 15.0, 60.0

log = structlog.get_logger("arrival")


class Watched(Protocol):
    """The port that the trigger polls. Equal listings need no second look."""

    @property
    def pipeline(self) -> str: ...

    def listing(self) -> tuple[Any, ...]: ...

    def look(self, listing: Any, now: datetime) -> Look: ...


@dataclass(slots=True)
class Repeats:
    """Lets an event pass at once if there was progress since the last one, else after an exponential backoff."""

    mark: Mark | None = None
    until: float = 0.0
    pause_s: float = _FIRST_PAUSE_S

    def allow(self, mark: Mark, now: float) -> bool:
        if mark == self.mark and now < self.until:
            return False
        self.pause_s = min(2 * self.pause_s, _LONGEST_PAUSE_S) if mark == self.mark else _FIRST_PAUSE_S
        self.mark, self.until = mark, now + self.pause_s
        return True


class ArrivalTrigger(BaseEventTrigger):  # type: ignore[misc]  # Airflow is not followed by mypy
    """Fires when a pipeline has input. It is fully determined by its arguments: other arguments, another trigger."""

    def __init__(
        self,
        pipeline: str,
        landing: str,
        format: str,
        grace_s: float,
        masters: Sequence[Sequence[str | None]] = (),
        poll_s: float = 0.5,
        topic: Mapping[str, str | None] | None = None,
    ) -> None:
        super().__init__()
        self.arguments: dict[str, Any] = {
            "pipeline": pipeline,
            "landing": landing,
            "format": format,
            "grace_s": grace_s,
            "masters": [list(one) for one in masters],
            "poll_s": poll_s,
        }
        if topic is not None:  # without credentials: these come from the triggerer's settings
            self.arguments["topic"] = dict(topic)

    @classmethod
    def of(cls, pipeline: Pipeline) -> ArrivalTrigger:
        """The trigger of a declared pipeline."""
        source = pipeline.stream.source
        watched = [WatchedMaster.of(one) for one in pipeline.masters]
        masters = [(one.name, one.store, one.table) for one in watched]
        topic = None if source.topic is None else asdict(source.topic)
        grace_s = pipeline.grace.total_seconds()
        return cls(pipeline.name, str(source.landing), source.format, grace_s, masters, topic=topic)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        arrival = await self._begin()
        loop, repeats = asyncio.get_running_loop(), Repeats()
        seen: object = None
        ask_at = 0.0
        while True:
            try:
                listing = await asyncio.to_thread(arrival.listing)
                if listing != seen or loop.time() >= ask_at:
                    look = await asyncio.to_thread(arrival.look, listing, datetime.now(UTC))
                    # A running batch ends soon, and then latency matters.
                    seen, ask_at = listing, loop.time() + (0.0 if look.under_way else _AGAIN_S)
                    if look.due and repeats.allow(look.mark, loop.time()):
                        yield TriggerEvent({"pipeline": arrival.pipeline, "files": len(listing)})
            except Exception as error:  # any error: a trigger that ends is not restarted
                _warn(arrival.pipeline, error)
                ask_at = loop.time() + _AGAIN_S
                await asyncio.sleep(_AGAIN_S)  # else it would be said twice a second
            await asyncio.sleep(self.arguments["poll_s"])

    async def _begin(self) -> Watched:
        """The watched object, as soon as the settings are complete: a trigger that ends is not restarted."""
        while True:
            try:
                return await asyncio.to_thread(self._arrival)
            except Exception as error:
                _warn(self.arguments.get("pipeline"), error)
                await asyncio.sleep(_AGAIN_S)

    def _arrival(self) -> Watched:
        from etl.settings import load
        from etl.stack import postgres

        own, given = load(), self.arguments
        return Arrival(
            pipeline=given["pipeline"],
            landing=Path(given["landing"]),
            format=given["format"],
            dsn=lambda: postgres.dsn(own),
            grace=timedelta(seconds=given["grace_s"]),
            pages=own.master_pages if own.master_store == "pages" else None,
            masters=tuple(WatchedMaster(*one) for one in given["masters"]),
            topic=_watched(own, given.get("topic")),
        )


def _warn(pipeline: str | None, error: Exception) -> None:
    expected = isinstance(error, FrontstageError | OSError)
    reason = str(error) if expected else type(error).__name__  # its text may contain values
    log.warning("cannot look for events", pipeline=pipeline, reason=reason, exc_info=not expected)


def _watched(own: Settings, topic: Mapping[str, Any] | None) -> WatchedTopic | None:
    if topic is None:
        return None
    declared = Topic(**topic)
    return WatchedTopic(declared, Broker(access_of(own, declared)))
