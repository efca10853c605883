"""Reading the rows of `etl.batch`, in which pipelines and correlations store different kinds of decision."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from etl.adapters.postgres.statements import Statements
from etl.errors import TerminalError

Record = TypeVar("Record")


class BatchRows(Statements, ABC, Generic[Record]):
    """Finds batches, and returns each as a record of the subclass's type."""

    listed_by: ClassVar[str] = "`frontstage status` lists them"

    @abstractmethod
    def _as_record(self, row: Mapping[str, Any]) -> Record: ...

    def oldest_unloaded(self) -> Record | None:
        """The oldest batch that has begun and is not loaded."""
        return self._batch("and state <> 'loaded' order by batch limit 1")

    def last(self) -> Record | None:
        """The newest batch."""
        return self._batch("order by batch desc limit 1")

    def find(self, batch: int) -> Record | None:
        """One batch, if it is there."""
        return self._batch("and batch = %(batch)s", {"batch": batch})

    def get(self, batch: int) -> Record:
        """One batch, which must exist."""
        record = self.find(batch)
        if record is None:
            raise TerminalError(f"batch {batch} of {self.pipeline} is not in the ledger; {self.listed_by}")
        return record

    def history(self, limit: int) -> list[Record]:
        """The newest batches, oldest first."""
        return self._batches("order by batch desc limit %(limit)s", {"limit": limit})[::-1]

    def loaded_after(self, batch: int) -> list[Record]:
        """Loaded batches after this one, in order."""
        return self._batches("and batch > %(batch)s and state = 'loaded' order by batch", {"batch": batch})

    def _batch(self, tail: str, values: dict[str, Any] | None = None) -> Record | None:
        return next(iter(self._batches(tail, values)), None)

    def _batches(self, tail: str, values: dict[str, Any] | None = None) -> list[Record]:
        query = f"select * from etl.batch where pipeline = %(pipeline)s {tail}"  # noqa: S608 - tails are literals
        return [self._as_record(row) for row in self._all(query, values)]
