"""Correlations: a list with rates and state, one of them with its panels, their batches and history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from etl.adapters.ledger import Ledger
from etl.page.panels import panels
from etl.page.queries.batches import PAGE_SIZE, newest, of_run
from etl.page.queries.correlations import NAME, current, detail, streams
from etl.page.queries.history import SpanName, history
from etl.page.queries.sites import over_sites
from etl.page.rendering import page, root
from etl.page.security import HEADERS
from etl.page.site import Guest, NotFound, kind_of
from etl.page.views.trends import of_correlation, of_correlations, of_sites
from etl.streams.inspection.shut_input import shut_input


def _may_see(guest: Guest) -> None:
    guest.must_see(NAME)


router = APIRouter(prefix="/c", dependencies=[Depends(_may_see)])


@router.get("/")
def all_correlations(request: Request, guest: Guest) -> HTMLResponse:
    """Every declared correlation, and what the newest batch read of every stream."""
    with guest.site.ledger() as ledger:
        found, read = current(ledger, guest.site.local_kinds), streams(ledger)
        sites, batches = over_sites(ledger, guest.site.over_sites), newest(ledger, NAME, limit=10)
        shut = shut_input(guest.site.streams, Ledger(ledger, NAME))
    return page(
        request,
        "correlations_now.html.j2",
        correlations=found,
        sites=sites,
        streams=read,
        batches=batches,
        shut=shut,
    )


@router.get("/history")
def correlations_history(request: Request, guest: Guest, span: SpanName = "24h") -> HTMLResponse:
    """A day or a month in charts and figures."""
    with guest.site.ledger() as ledger:
        found = history(ledger, NAME, span, datetime.now(UTC))
    return page(request, "history.html.j2", name=NAME, history=found, charts=of_correlations(found), streams=True)


@router.get("/batches")
def batches(
    request: Request, guest: Guest, before: Annotated[int | None, Query(ge=1, lt=2**62)] = None
) -> HTMLResponse:
    """Batches, newest first, a page at a time."""
    with guest.site.ledger() as ledger:
        found = newest(ledger, NAME, before)
    more = found[-1].batch if len(found) == PAGE_SIZE else None
    return page(request, "batches.html.j2", name=NAME, batches=found, before=before, more=more, streams=True)


@router.get("/run")
def of_a_run(request: Request, guest: Guest, id: str, to: str = "batch") -> RedirectResponse:
    """From a run of Airflow to the report of its batch, or to all correlations: what tasks link to."""
    with guest.site.ledger() as ledger:
        batch = of_run(ledger, NAME, id)
    written = batch is not None and (guest.site.settings.reports / NAME / str(batch) / "index.html").is_file()
    there = f"files/reports/{NAME}/{batch}/index.html" if written and to == "report" else "c/"
    return RedirectResponse(f"{root(request)}{there}", 303, HEADERS)


@router.get("/of/{name}")
def one_correlation(request: Request, guest: Guest, name: str) -> HTMLResponse:
    """Rates, state, late tuples, plan, units, scaling."""
    declared = guest.site.correlations.get(name)
    if declared is None:
        raise NotFound(f"correlation {name!r}")
    with guest.site.ledger() as ledger:
        found = detail(ledger, name, kind_of(declared), declared)
    charts = of_correlation(found.batches) if found.sites is None else of_sites(found.sites.batches)
    return page(request, "correlation.html.j2", one=found, panels=panels(found), charts=charts)
