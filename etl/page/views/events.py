"""The trace of one event; and refused lines with actions on them."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from etl.adapters.ledger import Ledger
from etl.contract.model import Pipeline
from etl.errors import TerminalError
from etl.page.rendering import page
from etl.page.site import Guest, Visitor
from etl.page.views.pipelines import offered

router = APIRouter(prefix="/p/{pipeline}")
_LINES_SHOWN = 100
PLACES = {
    "fact": "is in the fact table",
    "backlog": "waits in the backlog",
    "quarantine": "is in quarantine",
    "landing": "has landed, and no batch has decided about it",
    "nowhere": "is not known here",
}


@router.get("/event")
def event(
    request: Request,
    guest: Guest,
    pipeline: str,
    key: Annotated[list[str] | None, Query(max_length=16)] = None,
    raw: bool = False,
) -> HTMLResponse:
    """Where one event is and how it got there."""
    declared = guest.pipeline(pipeline)
    given = [one[:1000] for one in key or []]
    found, wrong = None, None
    if any(given):
        try:
            found = _trace(guest, declared, given, raw=raw)
        except TerminalError as error:
            wrong = str(error)
    values = dict(zip(declared.stream.key, given, strict=False))
    return page(
        request,
        "event.html.j2",
        status=200 if wrong is None else 400,
        pipeline=declared,
        values=values,
        raw=raw,
        found=found,
        wrong=wrong,
        places=PLACES,
    )


@router.get("/quarantine")
def quarantine(
    request: Request,
    guest: Guest,
    pipeline: str,
    batch: Annotated[int | None, Query(ge=1, lt=2**62)] = None,
    reason: Annotated[str | None, Query(max_length=200)] = None,
    every: bool = False,
) -> HTMLResponse:
    """Refused lines, newest batch first, and what to do about them."""
    from etl.pipeline.review.desk import open_desk
    from etl.pipeline.review.quarantine import Selection

    declared = guest.pipeline(pipeline)
    wanted = Selection(batch=batch, reason=reason or None, open_only=not every)
    with open_desk(guest.site.settings, guest.site.dsn(), pipeline) as desk:
        found = [desk.quarantine.shown(line) for line in islice(desk.quarantine.find(wanted), _LINES_SHOWN + 1)]
    return page(
        request,
        "quarantine.html.j2",
        pipeline=declared,
        lines=found[:_LINES_SHOWN],
        more=len(found) > _LINES_SHOWN,
        asked={"batch": batch, "reason": reason or "", "every": every},
        offered=offered(guest),
    )


def _trace(guest: Visitor, pipeline: Pipeline, key: list[str], *, raw: bool) -> Any:
    from etl.pipeline.inspection.event_trace import Tracer
    from etl.pipeline.prepare import places_of

    own = guest.site.settings
    with guest.site.ledger() as connection:
        tracer = Tracer(pipeline, places_of(own, pipeline), Ledger(connection, pipeline.name), guest.site.dsn(), key)
        return tracer.trace(datetime.now(UTC), raw=raw)
