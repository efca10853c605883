"""The changes at one bucket boundary: queries created and deleted, the plan, the partitioning.

A changelog is applied by every task before the same slot (they agree by `protocol`). A query created at slot s sees
tuples of slot s and later; a query deleted at slot s has no result in slot s or later. Nothing else depends on the
time of a change.
"""

from __future__ import annotations

from dataclasses import dataclass

from etl.correlate.adhoc.plan import Plan
from etl.correlate.adhoc.query.model import Query
from etl.correlate.adhoc.run.changes.partitioning import Partitioning


@dataclass(frozen=True, slots=True)
class Changelog:
    create: tuple[Query, ...] = ()
    delete: tuple[str, ...] = ()
    plan: Plan | None = None  # None: unchanged; new queries are unshared, joined in the order they name their streams
    partitioning: Partitioning | None = None

    @property
    def empty(self) -> bool:
        return not self.create and not self.delete and self.plan is None and self.partitioning is None
