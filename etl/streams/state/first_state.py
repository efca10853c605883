"""The state of a correlation before its first batch: no runs, and a routing chosen by the keys of that batch.

A key's subgroup never changes, so `auto` samples keys before the first batch: from the first part of the landed input.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from etl.adapters.landing import Slice, is_release
from etl.adapters.slice_reader import SliceReader
from etl.columnar.labels import unlabelled
from etl.contract.correlations.correlation import Correlation, LoggedStream
from etl.correlate.biclique.choose import Lanes
from etl.correlate.biclique.pipeline import Arrivals, arrive, prepared, right_columns
from etl.correlate.model import FIRST, Side, places, references
from etl.correlate.query.compile import JoinStep, Query
from etl.pipeline.tasks.line_choice import ALL_LINES, LineChoice
from etl.pipeline.tasks.read import slice_events
from etl.streams.declared import Catalog
from etl.streams.state.routers import first_choice
from etl.streams.tasks.plan import CorrelationState, RoutingNote

_SAMPLE_BYTES = 1 << 20
_FEWEST_KEYS = 256  # a smaller sample cannot distinguish skew from chance


def first_state(
    declared: Correlation,
    query: Query,
    catalog: Catalog,
    slices: Mapping[str, list[Slice]],
    batch: int,
    lines: LineChoice = ALL_LINES,
) -> CorrelationState:
    """A state with a router per step and no runs."""
    sample = _Sample(query, catalog, slices, lines) if declared.routing == "auto" else None
    choices = [
        first_choice(
            declared,
            step.condition,
            sample.lanes(step, "left") if sample else None,
            sample.lanes(step, "right") if sample else None,
        )
        for step in query.steps
    ]
    routers = tuple(choice.router(*declared.units) for choice in choices)
    return CorrelationState(batch, routers, tuple(RoutingNote(one.name, one.reason) for one in choices))


class _Sample:
    """Keys of the first tuples of every source."""

    def __init__(self, query: Query, catalog: Catalog, slices: Mapping[str, list[Slice]], lines: LineChoice) -> None:
        self._query, self._catalog, self._slices, self._lines = query, catalog, slices, lines
        self._read: dict[str, pa.RecordBatch] = {}

    def lanes(self, step: JoinStep, side: Side) -> Lanes | None:
        """Key lanes of one side; empty when too few have landed, or when a key spans several streams."""
        if not step.condition.keys:
            return None
        nothing = np.zeros(0, np.uint64)
        aliases = {step.left} if side == "left" else {name.partition(".")[0] for name in right_columns(step)}
        if len(aliases) != 1:
            return nothing, nothing
        (alias,) = aliases
        rows = self._rows(self._query.sources[alias].stream)
        arrivals = Arrivals(rows, references(0, np.arange(rows.num_rows)), places(0, rows.num_rows))
        arrived = arrive(self._query, alias, arrivals, FIRST)
        tuples = prepared(step, side, arrived.rows, arrived.tuples).tuples
        return (tuples.lo, tuples.hi) if len(tuples) >= _FEWEST_KEYS else (nothing, nothing)

    def _rows(self, stream: str) -> pa.RecordBatch:
        if stream not in self._read:
            declared = self._catalog.stream(stream)
            self._read[stream] = _first_rows(declared, self._slices.get(stream, []), self._lines)
        return self._read[stream]


def _first_rows(declared: LoggedStream, slices: list[Slice], lines: LineChoice) -> pa.RecordBatch:
    fields = pa.schema([one.with_nullable(True) for one in declared.schema])
    found = []
    source = declared.stream.source
    for one in [one for one in slices if not is_release(one.file.name)][:1]:
        whole = source.format == "parquet"
        part = one if whole else Slice(one.ordinal, one.file, one.first, min(one.last, one.first + _SAMPLE_BYTES))
        for events in slice_events(declared.stream, part, SliceReader(source.landing, part), lines):
            clean = pa.array(unlabelled(events.reasons))  # the last line may be incomplete
            found.append(events.batch.select(fields.names).filter(clean))
    batches = pa.Table.from_batches(found, fields).combine_chunks().to_batches()
    return (
        batches[0] if batches else pa.RecordBatch.from_arrays([pa.array([], one.type) for one in fields], schema=fields)
    )
