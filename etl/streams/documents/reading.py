"""Read a stream of documents like any stream, and keep the flattened documents in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from etl.adapters.landing import Slice
from etl.adapters.slice_reader import SliceReader
from etl.contract.correlations.documents import Flattening
from etl.correlate.documents.model import Documents, concat
from etl.correlate.model import references
from etl.streams.documents.read import DocumentReader
from etl.streams.tasks.plan import BatchPlan, StreamPlan
from etl.streams.tasks.reading import Reading


class DocumentReading(Reading):
    """Reads one stream's share of documents."""

    def __init__(self, plan: BatchPlan, stream: StreamPlan, reader: int, flattening: Flattening) -> None:
        super().__init__(plan, stream, reader)
        self._read = DocumentReader.of(stream.declared.stream, flattening, plan.lines)
        self._documents: list[Documents] = []

    def read_slice(self, one: Slice, reader: SliceReader) -> int:
        lines = 0
        for found in self._read.read(one, reader):
            lines += len(found.events)
            accepted = self.split(found.events, one, found.released_from)
            self._documents.append(found.documents.take(np.flatnonzero(accepted[found.documents.ids])))
        return lines

    def documents(self, segment: int) -> Documents:
        """All accepted documents; their ids are references to the rows of a segment."""
        whole = concat(self._documents)
        return replace(whole, ids=references(segment, np.arange(len(whole))))


def reading(plan: BatchPlan, stream: StreamPlan, reader: int) -> Reading:
    """The reader for a stream."""
    flattening = stream.declared.flattening
    return Reading(plan, stream, reader) if flattening is None else DocumentReading(plan, stream, reader, flattening)
