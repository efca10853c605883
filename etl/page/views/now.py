"""Now: every pipeline and the correlations at a glance."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse

from etl.page.charts import sparkline
from etl.page.queries.correlations import current
from etl.page.queries.overview import overview
from etl.page.queries.sites import over_sites
from etl.page.rendering import page
from etl.page.security import HEADERS
from etl.page.site import Guest
from etl.page.verdict import verdict

router = APIRouter()


@router.get("/")
def now(request: Request, guest: Guest) -> HTMLResponse:
    """Is the warehouse fresh, complete and correct?"""
    with guest.site.ledger() as ledger:
        pipelines = overview(ledger, guest.pipelines, datetime.now(UTC))
        correlations = current(ledger, guest.site.local_kinds) if guest.sees_correlations else []
        sites = over_sites(ledger, guest.site.over_sites) if guest.sees_correlations else []
    return page(
        request,
        "now.html.j2",
        pipelines=pipelines,
        correlations=correlations,
        sites=sites,
        verdict=verdict(pipelines),
        spark=sparkline,
    )


@router.get("/now.json")
def now_json(guest: Guest) -> JSONResponse:
    """The same for programs."""
    with guest.site.ledger() as ledger:
        found = overview(ledger, guest.pipelines, datetime.now(UTC))
    return JSONResponse({"pipelines": {one.name: one.as_json() for one in found}}, headers=HEADERS)
