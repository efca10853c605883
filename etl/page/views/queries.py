"""Ad-hoc queries: a list with states and rates, one of them with its plan and rows, a form for a new one.

Users who may see correlations see queries; those who may start runs of the DAG `query` may also create and delete.
"""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from etl.page.queries.correlations import NAME
from etl.page.rendering import page
from etl.page.site import Guest, Visitor

SHOWN_ROWS = 50


def _may_see(guest: Guest) -> None:
    guest.must_see(NAME)


router = APIRouter(prefix="/q", dependencies=[Depends(_may_see)])


def may_change(guest: Visitor) -> bool:
    """Whether the user may create and delete queries."""
    return guest.site.access.may_run(guest.user, "query") and guest.site.access.dag("query") is not None


@router.get("/")
def all_queries(request: Request, guest: Guest) -> HTMLResponse:
    """Every query, and a form for a new one."""
    found = guest.site.queries.summaries()
    return page(request, "queries.html.j2", queries=found, may_change=may_change(guest))


@router.get("/of/{name}")
def one_query(request: Request, guest: Guest, name: str) -> HTMLResponse:
    """What it is, how it runs beside the others and why, and what it has answered."""
    queries = guest.site.queries
    shown, decisions = queries.show(name), queries.explain(name)["decisions"]
    answered = queries.rows(name, SHOWN_ROWS)
    mine = may_change(guest) and shown["owner"] == guest.user.name
    plan = shown.get("plan")
    return page(request, "query.html.j2", one=shown, plan=plan, decisions=decisions, answered=answered, mine=mine)
