"""Ad-hoc queries for maintenance: files and segments in use, tables, and removal of deleted queries.

The table of a deleted query is kept as long as removed files of other tables, then it is deleted with its record.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from etl.adapters.delta.log import DeltaLog
from etl.pipeline.process_state import process_state
from etl.pipeline.upkeep.maintenance import KEPT_FOR
from etl.streams.adhoc.publish import APPLICATION
from etl.streams.adhoc.registry import QueryRegistry
from etl.streams.tasks.plan import RESULTS

if TYPE_CHECKING:
    from etl.streams.microbatch import MicroBatch


def segments_of_queries(run: MicroBatch) -> set[int]:
    """Segments that some query may still read."""
    return {one.number for one in QueryRegistry(run.ledger.connection).state().segments}


def query_tables(run: MicroBatch) -> Iterator[DeltaLog]:
    """The existing tables of queries."""
    for record in QueryRegistry(run.ledger.connection).records():
        delta = process_state().delta_log(run.places.queries / record.folder, APPLICATION)
        if (delta.folder(RESULTS) / "_delta_log").exists():
            yield delta


@dataclass(frozen=True, slots=True)
class QueryUpkeep:
    """One round of maintenance."""

    run: MicroBatch
    now: datetime

    @property
    def _registry(self) -> QueryRegistry:
        return QueryRegistry(self.run.ledger.connection)

    def files(self) -> set[str]:
        """Files of the store that the state references."""
        version = self._registry.state().version
        return set() if version is None else {version}

    def forget(self, *, dry_run: bool) -> list[str]:
        """Remove queries that were deleted long ago, with their tables."""
        gone = self._registry.gone_since(self.now - KEPT_FOR)
        for record in () if dry_run else gone:
            shutil.rmtree(self.run.places.queries / record.folder, ignore_errors=True)
        if gone and not dry_run:
            self._registry.forget([one.id for one in gone])
        if not dry_run:
            self._registry.forget_log(self.now - 4 * KEPT_FOR)
        return [one.name for one in gone]
