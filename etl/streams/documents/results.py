"""Results of a correlation of documents: pairs with their times and kept fields, as files of a Delta table."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pyarrow as pa

from etl.adapters.delta.data_files import write_part
from etl.contract.correlations.documents import DOCUMENT, DocumentCorrelation
from etl.contract.words.types import TIMESTAMP
from etl.correlate.documents.dictionary import I64
from etl.correlate.documents.model import Pairs, merged
from etl.pipeline.tasks.wire import Message
from etl.streams.documents.files import Assigned
from etl.streams.documents.state import DocumentPlan
from etl.streams.storage.log import SegmentRows
from etl.streams.tasks import wire
from etl.streams.tasks.plan import RESULTS, BatchPlan

_BLOCK = 1 << 18  # pairs per block of rows


def results_schema(declared: DocumentCorrelation) -> pa.Schema:
    """The columns of the table: `left` came before `right`; ids are unique to a document."""
    fixed = [("batch", pa.int64()), ("left_id", pa.int64()), ("right_id", pa.int64())]
    times = [("left_time", TIMESTAMP), ("right_time", TIMESTAMP)]
    return pa.schema([*fixed, *times, *((part, pa.string()) for part in declared.keep)])


class DocumentResults:
    """Results of one correlation in one task."""

    def __init__(self, plan: BatchPlan, one: DocumentPlan, task: int) -> None:
        self._plan, self._one, self._task = plan, one, task
        schema = next(stream.schema for stream in plan.declared_streams if stream.name == one.declared.stream)
        self._rows = SegmentRows(plan.places.store, one.declared.stream, schema)
        self._tables: list[pa.Table] = []

    def add(self, held: Assigned, pairs: Pairs) -> None:
        """The rows of some pairs among these documents."""
        for start in range(0, len(pairs), _BLOCK):
            some = Pairs(pairs.left[start : start + _BLOCK], pairs.right[start : start + _BLOCK])
            self._tables.append(self._table(held, some))

    def _table(self, held: Assigned, pairs: Pairs) -> pa.Table:
        ids = held.documents.ids
        left, right = np.searchsorted(ids, pairs.left), np.searchsorted(ids, pairs.right)
        columns: dict[str, pa.Array] = {
            "batch": pa.repeat(pa.scalar(self._plan.batch, pa.int64()), len(pairs)),
            "left_id": pa.array(pairs.left),
            "right_id": pa.array(pairs.right),
            "left_time": pa.array(held.times[left]).cast(TIMESTAMP),
            "right_time": pa.array(held.times[right]).cast(TIMESTAMP),
        }
        for part in self._one.declared.keep:
            if part == "merged":
                used = held.documents.take(np.unique(np.concatenate([left, right])))
                columns[part] = merged(used, pairs)
            else:
                columns[part] = self._originals(pairs.left if part == "left" else pairs.right)
        return pa.table(columns, schema=results_schema(self._one.declared))

    def _originals(self, ids: I64) -> pa.Array:
        return self._rows.take(ids, [DOCUMENT]).column(0)

    def written(self) -> Iterator[Message]:
        if not self._tables:
            return
        plan = self._plan
        # A retried task must not overwrite a file that the first try has reported.
        name = plan.part_name(f"u{secrets.token_hex(4)}-", self._task)
        file = write_part(plan.places.correlations / self._one.name, RESULTS, name, pa.concat_tables(self._tables))
        yield wire.result("document_file", {"correlation": self._one.name, "file": asdict(file)})
