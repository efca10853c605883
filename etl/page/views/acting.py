"""Actions: a confirmation page, then a run of a DAG, then its state."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import parse_qs, urlencode

import structlog
from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from etl.page.actions import ACTIONS, Action, Asked
from etl.page.ports import Dag, Forbidden, RunRefused
from etl.page.rendering import page, root
from etl.page.security import HEADERS, FormRefused, check, check_origin, sign
from etl.page.site import Guest, NotFound, Visitor

router = APIRouter()
_LARGEST_FORM = 1 << 20
log = structlog.get_logger("page")


async def _posted(request: Request) -> dict[str, list[str]]:
    """The fields of a form that was sent."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LARGEST_FORM:
            raise FormRefused
    return parse_qs(body.decode("utf-8", "replace"), max_num_fields=1000)


Posted = Annotated[dict[str, list[str]], Depends(_posted)]


@router.get("/act/{name}")
def confirm(request: Request, guest: Guest, name: str) -> HTMLResponse:
    """What an action would do, and a form that lets it."""
    action = _action(name)
    asked = Asked.of({key: request.query_params.getlist(key) for key in request.query_params})
    dag = _checked(guest, action, asked)
    return page(
        request,
        "confirm.html.j2",
        action=action,
        asked=asked,
        dag=dag,
        sentence=action.sentence(asked),
        signature=sign(guest.site.access.secret(), guest.user, name, asked.signed()),
        user=guest.user,
        wrong=None,
    )


@router.post("/act/{name}")
def act(request: Request, guest: Guest, name: str, posted: Posted) -> RedirectResponse:
    """Do what was confirmed."""
    action = _action(name)
    check_origin(request)
    asked = Asked.of(posted)
    check(guest.site.access.secret(), guest.user, name, asked.signed(), "".join(posted.get("signature", [""])))
    _checked(guest, action, asked)
    order = action.order(asked)
    run_id = guest.site.access.start(guest.user, order)
    log.info("a person acted", action=name, by=guest.user.name, dag=order.dag, run_id=run_id, conf=dict(order.conf))
    shown = {"dag": order.dag, "run": run_id, "action": name, "pipeline": asked.pipeline or ""}
    query = urlencode(shown | ({"query": asked.query} if asked.query else {}))
    return RedirectResponse(f"{root(request)}started?{query}", 303, HEADERS)


@router.get("/started")
async def started(
    request: Request,
    guest: Guest,
    dag: Annotated[str, Query(max_length=250)],
    run: Annotated[str, Query(max_length=250)],
    action: Annotated[str, Query(max_length=50)],
    pipeline: Annotated[str, Query(max_length=250)] = "",
    query: Annotated[str, Query(max_length=63)] = "",
) -> HTMLResponse:
    """How a run goes that somebody started here."""
    done = _action(action)
    if not guest.site.access.may_run(guest.user, dag):
        raise Forbidden(f"looking at {dag}")
    state = await run_in_threadpool(guest.site.access.run_state, dag, run)
    if state is None:
        raise NotFound("such run")
    return page(request, "started.html.j2", action=done, dag=dag, run=run, state=state, pipeline=pipeline, query=query)


def _action(name: str) -> Action:
    if name not in ACTIONS:
        raise NotFound(f"action {name!r}")
    return ACTIONS[name]


def _checked(guest: Visitor, action: Action, asked: Asked) -> Dag:
    """The DAG of an action. Raises without permission, or when a value is missing."""
    action.check(asked)
    if asked.pipeline is not None:
        guest.pipeline(asked.pipeline)
    wanted = action.dag(asked)
    if not guest.site.access.may_run(guest.user, wanted):
        raise Forbidden(action.label)
    dag = guest.site.access.dag(wanted)
    if dag is None:
        raise RunRefused(wanted, "this Airflow has no such DAG")
    if action.examine is not None:
        action.examine(guest.site.queries, asked, guest.user.name)
    return dag
