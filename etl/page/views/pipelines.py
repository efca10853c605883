"""One pipeline: how it stands, its history, its batches, and a batch by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from etl.adapters import postgres
from etl.adapters.ledger import BatchRecord, Ledger
from etl.contract.model import Pipeline
from etl.page import flow
from etl.page.actions import ACTIONS
from etl.page.queries.batches import PAGE_SIZE, newest, of_run
from etl.page.queries.history import SpanName, history
from etl.page.queries.overview import backlog_open, overview
from etl.page.rendering import page, root
from etl.page.site import Guest, NotFound, Visitor
from etl.page.views.trends import of_pipeline

router = APIRouter(prefix="/p/{pipeline}")
_FILES_SHOWN = 200
_STEPS = ("ingest", "audit", "publish")


@router.get("")
def one_pipeline(request: Request, guest: Guest, pipeline: str) -> HTMLResponse:
    """How a pipeline stands, and its newest batches."""
    declared = guest.pipeline(pipeline)
    with guest.site.ledger() as ledger:
        (now,) = overview(ledger, [declared], datetime.now(UTC))
        batches = newest(ledger, pipeline, limit=10)
    return page(request, "pipeline.html.j2", pipeline=declared, one=now, batches=batches, offered=offered(guest))


@router.get("/history")
def pipeline_history(request: Request, guest: Guest, pipeline: str, span: SpanName = "24h") -> HTMLResponse:
    """A day or a month in charts and figures."""
    guest.pipeline(pipeline)
    with guest.site.ledger() as ledger:
        found = history(ledger, pipeline, span, datetime.now(UTC), backlog_open(ledger, pipeline))
    return page(request, "history.html.j2", name=pipeline, history=found, charts=of_pipeline(found), streams=False)


@router.get("/batches")
def batches(
    request: Request, guest: Guest, pipeline: str, before: Annotated[int | None, Query(ge=1, lt=2**62)] = None
) -> HTMLResponse:
    """Batches, newest first, a page at a time."""
    guest.pipeline(pipeline)
    with guest.site.ledger() as ledger:
        found = newest(ledger, pipeline, before)
    more = found[-1].batch if len(found) == PAGE_SIZE else None
    return page(request, "batches.html.j2", name=pipeline, batches=found, before=before, more=more, streams=False)


@router.get("/batches/{batch}")
def one_batch(request: Request, guest: Guest, pipeline: str, batch: int) -> HTMLResponse:
    """Everything about one batch: its flow, phases, master versions, files."""
    declared = guest.pipeline(pipeline)
    with guest.site.ledger() as connection:
        record, slices = _record(connection, pipeline, batch)
    counts = None if record.decision is None else record.counts
    phases = sorted(record.seconds.items(), key=lambda one: _STEPS.index(one[0]) if one[0] in _STEPS else len(_STEPS))
    return page(
        request,
        "batch.html.j2",
        pipeline=declared,
        record=record,
        counts=counts,
        awaited=record.state == "held" or (record.aside > 0 and record.verdict is None),
        drawing=None if counts is None else flow.drawing(batch, counts),
        edges=() if counts is None else flow.edges(counts),
        phases=phases,
        longest=max((spent for _, spent in phases), default=0.0),
        slices=slices[:_FILES_SHOWN],
        unshown=max(0, len(slices) - _FILES_SHOWN),
        files=() if record.decision is None else record.decision.files[:_FILES_SHOWN],
        links=_links(guest, declared, batch),
        offered=offered(guest),
    )


@router.get("/run")
def of_a_run(request: Request, guest: Guest, pipeline: str, id: str, to: str = "batch") -> RedirectResponse:
    """From a run of Airflow to its batch, its run report or its Data Docs: what tasks link to."""
    declared = guest.pipeline(pipeline)
    with guest.site.ledger() as ledger:
        batch = of_run(ledger, pipeline, id)
    here = f"{root(request)}p/{pipeline}"
    if batch is None:  # the run found no input, or continued the batch of another run
        return RedirectResponse(here, 303)
    link = {"batch": f"{here}/batches/{batch}"} | {
        name: f"{root(request)}{address}" for name, address in _links(guest, declared, batch).items()
    }
    return RedirectResponse(link.get(to, link["batch"]), 303)


def offered(guest: Visitor) -> frozenset[str]:
    """The actions whose DAGs this Airflow has."""
    dags = {"drain-backlog": "backlog", "refresh-masters": "master_data"}
    dags |= {"release-lines": "quarantine", "reject-lines": "quarantine"}
    access = guest.site.access
    dags |= {"decide-held": "held"}
    missing = {name for name, dag in dags.items() if access.dag(dag) is None or not access.may_run(guest.user, dag)}
    return (frozenset(ACTIONS) | dags.keys()) - missing


def _record(connection: postgres.Connection, pipeline: str, batch: int) -> tuple[BatchRecord, list[str]]:
    ledger = Ledger(connection, pipeline)
    record = ledger.find(batch) if 0 < batch < 2**62 else None
    if record is None:
        raise NotFound(f"batch {batch} of {pipeline}")
    named = [f"{one.file.label}, bytes {one.first:,} to {one.last:,}" for one in ledger.slices(batch)]
    return record, named


def _links(guest: Visitor, pipeline: Pipeline, batch: int) -> dict[str, str]:
    """The existing pages about a batch, by kind; relative to the page's root."""
    own, found = guest.site.settings, {}
    if (own.reports / pipeline.name / str(batch) / "index.html").is_file():
        found["report"] = f"files/reports/{pipeline.name}/{batch}/index.html"
    docs = _data_docs(own.data_docs, pipeline.name, batch)
    if docs is not None:
        found["docs"] = f"files/data_docs/{docs}"
    return found


def _data_docs(folder: Path, pipeline: str, batch: int) -> str | None:
    """The page of a batch's audit in Data Docs, or the first page of them."""
    pages = sorted((folder / "validations" / pipeline / f"{pipeline}-{batch}").glob("*/*.html"))
    if pages:
        return pages[-1].relative_to(folder).as_posix()
    return "index.html" if (folder / "index.html").is_file() else None
