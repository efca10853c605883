"""The quality of an assignment: replication, maximal load, Gini coefficient; and when to repartition (ADR 38)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from etl.correlate.documents.dictionary import I64


@dataclass(frozen=True, slots=True)
class Quality:
    """Counts of one window: documents, and documents by joiner."""

    documents: int
    loads: I64

    @property
    def replication(self) -> float:
        """How many joiners a document is sent to, on average."""
        return float(self.loads.sum() / self.documents) if self.documents else 0.0

    @property
    def maximal_load(self) -> float:
        """The share of the window's documents that the busiest joiner gets."""
        return float(self.loads.max(initial=0) / self.documents) if self.documents else 0.0

    @property
    def shares(self) -> list[float]:
        """The share of all documents sent that each joiner gets, as section III of the paper computes it."""
        sent = self.loads.sum()
        return [float(load / sent) if sent else 0.0 for load in self.loads]

    @property
    def gini(self) -> float:
        """The inequality of loads: 0 equal, near 1 all at one joiner."""
        return gini(self.loads)

    def worse_than(self, other: Quality, threshold: float) -> bool:
        """Whether replication or the maximal load has grown by more than a relative threshold."""
        grown = 1 + threshold
        return self.replication > grown * other.replication or self.maximal_load > grown * other.maximal_load


def gini(loads: I64) -> float:
    """The Gini coefficient: the mean difference of two loads over twice the mean load."""
    total = float(loads.sum())
    if total == 0:
        return 0.0
    rising = np.sort(loads)
    place = np.arange(1, len(loads) + 1)
    return float((2 * place - len(loads) - 1) @ rising / (len(loads) * total))
