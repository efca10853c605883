"""Plan one try at a batch of correlations: input per task, joining units, reserved file names and segment numbers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from etl.adapters.landing import Slice
from etl.contract.correlations.correlation import Correlation
from etl.contract.correlations.documents import DocumentCorrelation
from etl.errors import TerminalError
from etl.pipeline.tasks.line_choice import ALL_LINES, LineChoice
from etl.streams.declared import stages_of
from etl.streams.documents.figures import routing_name
from etl.streams.documents.first import Planner
from etl.streams.documents.state import DocumentPlan
from etl.streams.ledger import BatchRecord, KnownCorrelation, KnownDocuments
from etl.streams.state.first_state import first_state
from etl.streams.tasks.plan import BatchPlan, CorrelationPlan, StreamPlan, reader_of

if TYPE_CHECKING:
    from etl.streams.microbatch import MicroBatch


def plan_batch(
    run: MicroBatch,
    began: BatchRecord,
    slices: Mapping[str, list[Slice]],
    known: Mapping[str, KnownCorrelation],
    documents: Mapping[str, KnownDocuments],
    lines: LineChoice = ALL_LINES,
) -> BatchPlan:
    """Plan one try at a batch; its file names and segment numbers are unique to the try."""
    size = sum(one.last - one.first for many in slices.values() for one in many)
    tasks = run.tasks_for(size)
    readers = max(1, min(tasks, sum(map(len, slices.values()))))
    declared = {stream.name: stream for stream in run.catalog.streams}
    gone = sorted(slices.keys() - declared.keys())
    if gone:
        raise TerminalError(
            f"batch {began.batch} reads stream {gone[0]!r}, which no file declares any more; put it back"
        )
    in_order = {one.stream for one in run.catalog.documents if one.window.by == "count"}
    return BatchPlan(
        places=run.places,
        batch=began.batch,
        attempt=secrets.token_hex(4),
        now=began.started_at,
        streams=tuple(
            StreamPlan(
                stream,
                tuple(slices.get(name, ())),
                _segments(run, slices.get(name, ()), readers, name in in_order),
                name in in_order,
            )
            for name, stream in declared.items()
        ),
        correlations=tuple(
            _correlation(run, one, began.batch, slices, known, lines) for one in run.catalog.correlations
        ),
        readers=readers,
        tasks=tasks,
        documents=tuple(
            _over_documents(run, one, began.batch, slices.get(one.stream, ()), documents.get(one.name), lines)
            for one in run.catalog.documents
        ),
        lines=lines,
    )


def _segments(run: MicroBatch, slices: Sequence[Slice], readers: int, in_order: bool) -> dict[int, int]:
    """Reserve a number for every segment that may be written; unused numbers are skipped."""
    reading = sorted({reader_of(one, readers, in_order) for one in slices})
    return dict(zip(reading, run.ledger.segment_numbers(len(reading)), strict=True)) if reading else {}


def _correlation(
    run: MicroBatch,
    one: Correlation,
    batch: int,
    slices: Mapping[str, list[Slice]],
    known: Mapping[str, KnownCorrelation],
    lines: LineChoice,
) -> CorrelationPlan:
    query = run.query(one)
    if one.name in known:
        state = known[one.name].state
    else:
        state = first_state(one, query, run.catalog, slices, batch, lines)
        run.progress(f"{one.name} begins with batch {batch}: {', '.join(note.name for note in state.routing)} routing")
    return CorrelationPlan(one, state, stages_of(query))


def _over_documents(
    run: MicroBatch,
    one: DocumentCorrelation,
    batch: int,
    slices: Sequence[Slice],
    known: KnownDocuments | None,
    lines: LineChoice,
) -> DocumentPlan:
    stream = run.catalog.stream(one.stream)
    planner = Planner(run.places.store, batch, lines)
    plan = planner.plan(one, None if known is None else known.state, stream, slices)
    if known is None:
        run.progress(f"{one.name} begins with batch {batch}: documents are routed by {routing_name(plan.state)}")
    return plan
