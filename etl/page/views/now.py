"""Now: every pipeline and the correlations at a glance."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from etl.page.queries.correlations import standing
from etl.page.queries.overview import PipelineNow, overview
from etl.page.rendering import page
from etl.page.security import HEADERS
from etl.page.site import Guest, Visitor, kind_of

router = APIRouter()


@router.get("/")
def now(request: Request, guest: Guest) -> HTMLResponse:
    """Is the warehouse fresh, complete and correct?"""
    with guest.site.ledger() as ledger:
        pipelines = overview(ledger, guest.pipelines, datetime.now(UTC))
        correlations = standing(ledger, _kinds(guest)) if guest.sees_correlations else []
    return page(request, "now.html.j2", pipelines=pipelines, correlations=correlations)


@router.get("/now.json")
def now_json(guest: Guest) -> JSONResponse:
    """The same for programs."""
    with guest.site.ledger() as ledger:
        found = overview(ledger, guest.pipelines, datetime.now(UTC))
    return JSONResponse({"pipelines": {one.name: _plain(one) for one in found}}, headers=HEADERS)


def _kinds(guest: Visitor) -> dict[str, str]:
    return {name: kind_of(one) for name, one in guest.site.correlations.items()}


def _plain(one: PipelineNow) -> dict[str, Any]:
    tone, sentence = one.standing
    return {
        "tone": tone,
        "standing": sentence,
        "totals": dict(one.totals),
        "rate_per_s": one.rate_per_s,
        "overloaded": one.overloaded,
        "backlog": [{**asdict(each), "since": each.since.isoformat()} for each in one.backlog],
        "last_batch": None if one.last is None else one.last.batch,
        "freshness_p95_s": None if one.last is None else one.last.fresh_p95_s,
        "open_batch": None if one.open is None else {"batch": one.open.batch, "state": one.open.state},
    }
