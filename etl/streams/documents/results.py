"""Results of a correlation of documents: pairs with their times and kept fields, as files of a Delta table.

    pairs ─► blocks of about 8 MiB of rows ─► a file as soon as they are 64 MiB ─► named when the task ends (ADR 123)

So a task holds about one file's rows, however many results it has.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.adapters.delta.data_files import write_part
from etl.adapters.ledger import DataFile
from etl.contract.correlations.documents import DOCUMENT, DocumentCorrelation
from etl.contract.words.types import TIMESTAMP
from etl.correlate.documents.dictionary import I64
from etl.correlate.documents.model import Documents, Pairs, merged
from etl.pipeline.tasks.wire import Message
from etl.streams.documents.files import Assigned
from etl.streams.documents.state import DocumentPlan
from etl.streams.storage.log import SegmentRows
from etl.streams.tasks import wire
from etl.streams.tasks.plan import RESULTS, BatchPlan

_BLOCK_BYTES, _PART_BYTES = 8 << 20, 64 << 20  # estimated bytes of a block of rows; of the rows of a file
_FIXED_BYTES, _MEMBER_BYTES = 40, 6  # of a row beside its texts; quotes, colon and comma of a member
_READ_AT_ONCE = 256  # original documents, where only their lengths are needed


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
        # A retried task must not overwrite a file that the first try has reported.
        self._nonce, self._files = secrets.token_hex(4), list[DataFile]()
        self._tables, self._held_bytes = list[pa.Table](), 0

    def add(self, held: Assigned, pairs: Pairs) -> None:
        """The rows of some pairs among these documents."""
        if not len(pairs):
            return
        ends, start = np.cumsum(self._row_bytes(held, pairs)), 0
        while start < len(pairs):
            full = (ends[start - 1] if start else 0) + _BLOCK_BYTES
            end = max(start + 1, int(np.searchsorted(ends, full, side="right")))
            table = self._table(held, Pairs(pairs.left[start:end], pairs.right[start:end]))
            self._tables.append(table)
            self._held_bytes += table.nbytes
            if self._held_bytes >= _PART_BYTES:
                self._write()
            start = end

    def _row_bytes(self, held: Assigned, pairs: Pairs) -> I64:
        """About how many bytes the row of every pair has."""
        size = np.full(len(pairs), _FIXED_BYTES, np.int64)
        for part in self._one.declared.keep:
            if part == "merged":
                ids, widths = held.documents.ids, _member_bytes(held.documents)
                size += widths[np.searchsorted(ids, pairs.left)] + widths[np.searchsorted(ids, pairs.right)]
            else:
                used, place = np.unique(pairs.left if part == "left" else pairs.right, return_inverse=True)
                size += self._original_bytes(used)[place]
        return size

    def _original_bytes(self, ids: I64) -> I64:
        starts = range(0, len(ids), _READ_AT_ONCE)
        texts = (self._originals(ids[start : start + _READ_AT_ONCE]) for start in starts)
        return np.concatenate([pc.binary_length(some).to_numpy(zero_copy_only=False) for some in texts])

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
        """Name the files; a task that fails before has named none of them."""
        self._write()
        for file in self._files:
            yield wire.result("document_file", {"correlation": self._one.name, "file": asdict(file)})

    def _write(self) -> None:
        if not self._tables:
            return
        plan, rows = self._plan, pa.concat_tables(self._tables)
        name = plan.part_name(f"u{self._nonce}-{len(self._files):04d}-", self._task)
        self._files.append(write_part(plan.places.correlations / self._one.name, RESULTS, name, rows))
        self._tables, self._held_bytes = [], 0


def _member_bytes(documents: Documents) -> I64:
    """About how long the text of every document is, as it is merged."""
    keys, lengths = documents.dictionary.keys, np.zeros(len(documents.dictionary), np.int64)
    for code in np.flatnonzero(np.bincount(documents.pairs)).tolist():
        lengths[code] = len(keys[code]) + _MEMBER_BYTES
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[documents.pairs])])
    widths: I64 = np.diff(ends[documents.offsets])
    return widths
