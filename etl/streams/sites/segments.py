"""A batch's rows of a stream, read from the stream log at the stream's site and filtered by the SQL's selections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from etl.correlate.multiway.execution.folder import SiteAway, SiteFolder
from etl.streams.sites.query import SiteQuery
from etl.streams.storage.files import FileStore
from etl.streams.storage.log import Segment, from_ipc

Numbered = tuple[str, int]  # stream, batch of the ledger


@dataclass(frozen=True)
class LogSegments:
    """The port `etl.correlate.multiway.execution.segments.Segments` on the stream log.

    Batches of a correlation are numbered from its first one: `since` in the ledger.
    """

    query: SiteQuery
    store: FileStore
    folders: Mapping[str, SiteFolder]
    since: int
    segments: Mapping[Numbered, Sequence[Segment]]

    def of(self, stream: int, batch: int) -> Sequence[Segment]:
        alias = self.query.join.streams[stream].name
        return self.segments.get((self.query.sql.sources[alias].stream, self.since + batch), ())

    def read(self, stream: int, batch: int) -> pa.Table:
        declared = self.query.join.streams[stream]
        site = self.folders[declared.site]
        if not site.is_there():
            raise SiteAway(declared.site)
        with site.asking():
            rows = [self._rows(stream, segment) for segment in self.of(stream, batch)]
        return pa.concat_tables(rows) if rows else declared.schema.empty_table()

    def _rows(self, stream: int, segment: Segment) -> pa.Table:
        """Columns of one segment; NULL for fields declared after it was written."""
        declared = self.query.join.streams[stream]
        (held,) = self.store.open(segment.name, from_ipc)
        arrays = [
            held.column(one.name) if one.name in held.schema.names else pa.nulls(held.num_rows, one.type)
            for one in declared.schema
        ]
        rows = pa.Table.from_arrays(arrays, schema=declared.schema)
        selection = self.query.sql.sources[declared.name].selection
        if selection is None:
            return rows
        named = rows.rename_columns([f"{declared.name}.{name}" for name in rows.column_names])
        return rows.filter(pc.fill_null(selection.evaluate(named), False))
