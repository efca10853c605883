"""One joiner: joins the documents of its partition in this window as they arrive, within a byte budget."""

from __future__ import annotations

from dataclasses import dataclass, field

from etl.correlate.documents.dictionary import U64
from etl.correlate.documents.errors import JoinerBudgetExceeded
from etl.correlate.documents.joining.expand import Made
from etl.correlate.documents.joining.fp_join import UNBOUNDED, FPTreeJoin
from etl.correlate.documents.joining.tree import tree_bytes
from etl.correlate.documents.model import Documents
from etl.correlate.documents.partitioning.partitions import below


@dataclass(slots=True)
class Joiner:
    """The joiner of one partition."""

    partition: int
    budget_bytes: int
    join: FPTreeJoin = field(default_factory=FPTreeJoin)
    needed_bytes: int = 0

    def insert(self, documents: Documents, masks: U64, at_most: int = UNBOUNDED) -> Made:
        """Join arriving documents; `masks` are all partitions that each of them went to."""
        needed = self.needed_bytes + tree_bytes(documents)
        if needed > self.budget_bytes:
            raise JoinerBudgetExceeded(needed, self.budget_bytes, len(self.join) + len(documents))
        self.needed_bytes = needed
        return self.join.insert(documents, self._lower(masks), at_most)

    def _lower(self, masks: U64) -> U64:
        return below(masks, self.partition)
