"""The results of a query for people: its newest rows, or its aggregates so far.

Rows are read from the newest files backwards, only as many files as needed: a table may be far larger than memory.
Aggregates are stored as a row per group and batch, and are added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from etl.correlate.adhoc.query.model import Query
from etl.errors import TerminalError
from etl.streams.adhoc.tasks.results import BATCH, total


class AnswersUnreadable(TerminalError):
    """The table of a query is damaged or was replaced."""

    def __init__(self, name: str, folder: str, reason: str) -> None:
        super().__init__(name, folder, reason)
        self.name, self.folder, self.reason = name, folder, reason

    def __str__(self) -> str:
        return f"the table of query {self.name!r} in {self.folder} cannot be read: {self.reason}"


def answers(name: str, query: Query | None, folder: Path, limit: int, *, by_batch: bool) -> tuple[pa.Table, int]:
    """At most `limit` rows, newest first, and the total. `query` is None if its text can no longer be compiled."""
    try:
        table = DeltaTable(str(folder))
        if query is not None and query.aggregates and not by_batch:
            added = total(query, table.to_pyarrow_table())
            return added.slice(0, limit), added.num_rows
        rows, many = _newest(table, folder, limit)
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise AnswersUnreadable(name, str(folder), str(error).splitlines()[0]) from error
    parts = [] if query is None else [part for each in query.aggregates for part in each.parts]
    return rows.drop_columns(parts), many


def _newest(table: DeltaTable, folder: Path, limit: int) -> tuple[pa.Table, int]:
    actions: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    actions.sort(key=lambda one: one[f"max.{BATCH}"], reverse=True)
    found, have, oldest = [], 0, None
    for one in actions:
        # A compacted file may hold rows that are newer than those of the next file.
        if have >= limit and oldest is not None and one[f"max.{BATCH}"] < oldest:
            break
        single = one[f"min.{BATCH}"] == one[f"max.{BATCH}"]
        rows = _rows(folder / unquote(one["path"]), limit if single else one["num_records"])
        found.append(rows)
        have, oldest = have + rows.num_rows, one[f"min.{BATCH}"]
    many = sum(int(one["num_records"]) for one in actions)
    if not found:
        return table.to_pyarrow_table(), many
    return pa.concat_tables(found).sort_by([(BATCH, "descending")]).slice(0, limit), many


def _rows(file: Path, most: int) -> pa.Table:
    """The first rows of a file."""
    with pq.ParquetFile(file) as opened:
        return pa.Table.from_batches(_batches(opened, most), opened.schema_arrow)


def _batches(opened: pq.ParquetFile, most: int) -> Iterator[pa.RecordBatch]:
    left = most
    for batch in opened.iter_batches(min(max(most, 1), 65_536)):
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return
