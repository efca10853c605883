"""A whole correlation in one process: streams in, results out, batch after batch.

    per stream   select ──► split off late tuples ──► prepare
    per step     route ──► units ──► pairs ──► (as tuples of the next step)
    at the end   rows of the pairs ──► output columns ──► DISTINCT   or   partial view ──► merged view

All steps of a pipeline run inside one micro-batch: a pair has the position of its later tuple in the global order, so
the next step needs no order of its own. A joined pair is never late; the joined watermark bounds how old it may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from etl.correlate import aggregate
from etl.correlate.biclique.join import BatchCost, BicliqueJoin
from etl.correlate.biclique.routing import Router
from etl.correlate.distinct import Deduplicator
from etl.correlate.model import I64, Pairs, Side, Tuples
from etl.correlate.prepare import Prepared, event_times, prepare, selected
from etl.correlate.query.compile import JoinStep, Query
from etl.correlate.rows import JoinedRows, RowResidual, Rows
from etl.correlate.watermark import Watermark, joined_watermark


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A batch's tuples of one stream: rows, references, places in the global order."""

    batch: pa.RecordBatch
    refs: I64
    places: I64


@dataclass(frozen=True, slots=True)
class PipelineResult:
    rows: pa.Table  # the query's columns; for a grouping, the groups that this batch changed
    late: Mapping[str, I64]  # references per alias
    unmatchable: int
    pairs: int
    costs: tuple[BatchCost, ...]


@dataclass(slots=True)
class Pipeline:
    query: Query
    rows: Mapping[str, Rows]  # per alias
    joins: list[BicliqueJoin]
    watermarks: dict[str, Watermark]
    distinct: Deduplicator = field(default_factory=Deduplicator)
    view: pa.Table | None = None

    @classmethod
    def of(
        cls,
        query: Query,
        rows: Mapping[str, Rows],
        routers: list[Router],
        lateness_us: int = 0,
        period_us: int | None = None,
    ) -> Pipeline:
        """One router per step, the innermost first."""
        joins = []
        for step, router in zip(query.steps, routers, strict=True):
            left, right = JoinedRows((step.left,), rows), JoinedRows(step.right, rows)
            expression = step.condition.residual
            residual = None if expression is None else RowResidual(expression, left, right)
            joins.append(BicliqueJoin(step.condition, router, residual, period_us))
        return cls(query, rows, joins, {alias: Watermark(lateness_us) for alias in query.sources})

    def process(self, arrivals: Mapping[str, Arrivals]) -> PipelineResult:
        """Process one micro-batch; a stream may have no tuples."""
        chosen = {alias: self._arrive(alias, arrivals[alias]) for alias in self.query.sources}
        late = {alias: one.late[:, 0] for alias, one in chosen.items()}
        inner = self.query.steps[0].right[0]
        batch, tuples = chosen[inner].rows, chosen[inner].tuples
        right_mark, unmatchable, costs = self.watermarks[inner].value, 0, []
        for step, join in zip(self.query.steps, self.joins, strict=True):
            left = prepared(step, "left", chosen[step.left].rows, chosen[step.left].tuples)
            right = prepared(step, "right", batch, tuples)
            marks = (self.watermarks[step.left].value, right_mark)
            result = join.process(left.tuples, right.tuples, marks)
            costs.append(result.cost)
            unmatchable += left.unmatchable + right.unmatchable
            right_mark = joined_watermark(step.condition.window, *marks)
            aliases = (step.left, *step.right)
            batch, tuples = self._joined(aliases, result.pairs)
        return PipelineResult(self._results(batch), late, unmatchable, len(tuples), tuple(costs))

    def _arrive(self, alias: str, arrivals: Arrivals) -> Arrived:
        """Split tuples into on-time and late ones. Advances the watermark."""
        before = self.watermarks[alias]
        source = self.query.sources[alias]
        times = event_times(arrivals.batch.column(source.event_time.partition(".")[2]))
        self.watermarks[alias] = before.advanced(times)
        return arrive(self.query, alias, arrivals, before.value)

    def _joined(self, aliases: tuple[str, ...], pairs: Pairs) -> tuple[pa.RecordBatch, Tuples]:
        """Pairs as tuples, with the columns that later steps and the result need."""
        needed = self.query.columns.union(*(right_columns(step) for step in self.query.steps if step.right == aliases))
        rows = JoinedRows(aliases, self.rows).take(pairs.refs, needed)
        return rows, Tuples(pairs.refs, pairs.times, pairs.places)

    def _results(self, batch: pa.RecordBatch) -> pa.Table:
        grouping = self.query.grouping
        if grouping is not None:
            delta = aggregate.partial(grouping, batch)
            self.view = delta if self.view is None else aggregate.merge(grouping, [self.view, delta])
            return aggregate.finish(grouping, delta)
        columns = {name: expression.evaluate(batch) for name, expression in self.query.output}
        rows = pa.record_batch(columns)
        if self.query.distinct:
            rows = rows.take(pa.array(self.distinct.first_seen(rows)))
        return pa.Table.from_batches([rows])

    def groups(self) -> pa.Table:
        """The current aggregates."""
        assert self.query.grouping is not None, "a query without GROUP BY has no groups"
        assert self.view is not None, "no batch has come yet"
        return aggregate.finish(self.query.grouping, self.view)


@dataclass(frozen=True, slots=True)
class Arrived:
    """A batch's tuples of one source: selected rows that are on time; references of late ones."""

    rows: pa.RecordBatch  # columns are named alias.column
    tuples: Tuples
    late: I64  # references of selected rows below the watermark
    selected: int


def arrive(query: Query, alias: str, arrivals: Arrivals, watermark: np.int64) -> Arrived:
    """Selection, and the split of late tuples by the watermark as it was before the batch."""
    source = query.sources[alias]
    bare = [name.partition(".")[2] for name in source.schema.names]
    rows = pa.RecordBatch.from_arrays(arrivals.batch.select(bare).columns, schema=source.schema)
    chosen = selected(source.selection, rows)
    if len(chosen) < rows.num_rows:
        rows = rows.take(pa.array(chosen))
    number = list(query.sources).index(alias)
    places = arrivals.places[chosen] * len(query.sources) + number  # one tuple may have two aliases
    tuples = Tuples(arrivals.refs[chosen], event_times(rows.column(source.event_time)), places)
    late = tuples.times < watermark
    if not late.any():
        return Arrived(rows, tuples, tuples.refs[:0], len(chosen))
    on_time = np.flatnonzero(~late)
    return Arrived(rows.take(pa.array(on_time)), tuples.take(on_time), tuples.refs[late], len(chosen))


def prepared(step: JoinStep, side: Side, batch: pa.RecordBatch, tuples: Tuples) -> Prepared:
    """Tuples of one side of a step, with the values that its condition compares."""
    return prepare(step.condition, side, batch, tuples.refs, tuples.times, tuples.places)


def right_columns(step: JoinStep) -> frozenset[str]:
    """Columns that preparing a step's right side needs."""
    condition = step.condition
    expressions = [key.right for key in condition.keys]
    if condition.band is not None:
        expressions.append(condition.band.right.value)
    return frozenset[str]().union(*(expression.columns for expression in expressions))
