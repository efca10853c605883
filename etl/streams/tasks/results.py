"""From joined rows to results: files of the result table, rows for the deduplicator, or changes of groups.

Only here rows are read from the segments, for the columns that the query selects, a block at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pyarrow as pa

from etl.adapters.delta.data_files import write_part
from etl.columnar.multimap import hashes
from etl.correlate import aggregate
from etl.correlate.distinct import fingerprints
from etl.correlate.model import I64
from etl.correlate.query.compile import Query
from etl.correlate.rows import JoinedRows
from etl.pipeline.tasks.wire import Message
from etl.streams.declared import result_schema
from etl.streams.tasks import wire
from etl.streams.tasks.plan import RESULTS, BatchPlan
from etl.streams.tasks.wire import Address

_BLOCK = 1 << 20  # joined rows per block
_FILE_ROWS = 1 << 22


class Results:
    """Results of one correlation in one task."""

    def __init__(self, plan: BatchPlan, index: int, query: Query, task: int) -> None:
        self._plan, self._index, self._query, self._task = plan, index, query, task
        self._kept: list[pa.RecordBatch] = []
        self._views: list[pa.Table] = []
        self._files = 0

    def add(self, joined: JoinedRows, refs: I64) -> Iterator[Message]:
        """Add joined references."""
        for start in range(0, len(refs), _BLOCK):
            rows = joined.take(refs[start : start + _BLOCK], self._query.columns)
            if self._query.grouping is not None:
                self._views.append(aggregate.partial(self._query.grouping, rows))
                continue
            output = pa.record_batch({name: one.evaluate(rows) for name, one in self._query.output})
            if self._query.distinct:
                yield from self._route_distinct(output)
            else:
                yield from self.keep(output)

    def keep(self, rows: pa.RecordBatch) -> Iterator[Message]:
        """Add rows of the result table."""
        if rows.num_rows:
            self._kept.append(rows)
        if sum(one.num_rows for one in self._kept) >= _FILE_ROWS:
            yield self._flushed()

    def written(self) -> Iterator[Message]:
        """Flush the rest, at the task's end."""
        if self._kept:
            yield self._flushed()
        if self._views:
            assert self._query.grouping is not None, "only a grouping has views"
            yield wire.view(self._index, aggregate.merge(self._query.grouping, self._views))

    def _route_distinct(self, output: pa.RecordBatch) -> Iterator[Message]:
        """Route distinct rows to the deduplicator of their hash."""
        keys = fingerprints(output)
        lanes = keys.lo if keys.hi is None else keys.lo ^ hashes(keys.hi, np.zeros(0, np.uint64))
        units = self._plan.correlations[self._index].declared.units[0]
        unit_of = (hashes(lanes, np.zeros(0, np.uint64)) >> np.uint64(33)) % np.uint64(units)
        for unit in range(units):
            rows = np.flatnonzero(unit_of == unit)
            if len(rows):
                address = Address(self._index, len(self._query.steps), (unit,), "left", "rows")
                yield wire.addressed(self._plan, address, output.take(pa.array(rows)))

    def _flushed(self) -> Message:
        plan = self._plan
        schema = pa.schema(list(result_schema(self._query).items()))
        rows = pa.Table.from_batches(self._kept).cast(schema)
        root = plan.places.correlations / plan.correlations[self._index].name
        # A retried task must not overwrite a file that the first try has reported.
        name = plan.part_name(f"u{self._files}-{secrets.token_hex(4)}-", self._task)
        self._kept, self._files = [], self._files + 1
        return wire.result(
            "results", {"correlation": self._index, "file": asdict(write_part(root, RESULTS, name, rows))}
        )
