"""Partitions whose busiest joiner stays within its memory: their number is doubled as long as that helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from etl.correlate.documents.joining.tree import BYTES_PER_DOCUMENT, BYTES_PER_PAIR
from etl.correlate.documents.model import Documents
from etl.correlate.documents.partitioning.assigner import assign
from etl.correlate.documents.partitioning.partitions import Partitions
from etl.correlate.documents.partitioning.quality import Quality

_HELPS = 0.9  # of the bytes before doubling: with more, the number of partitions is not what matters


@dataclass(frozen=True, slots=True)
class Fitted:
    """Partitions, and what their busiest joiner needs for the expected documents."""

    partitions: Partitions
    quality: Quality  # of the sample
    busiest: int  # documents
    needed_bytes: int


def fitting(
    sample: Documents, make: Callable[[int], Partitions], count: int, most: int, budget_bytes: int, times: float = 1.0
) -> Fitted:
    """At least `count` partitions and at most `most`; `times` as many documents are expected as are in the sample."""
    fitted = _fitted(sample, make(count), times)
    while fitted.needed_bytes > budget_bytes and 2 * count <= most:
        more = _fitted(sample, make(2 * count), times)
        if more.needed_bytes > _HELPS * fitted.needed_bytes:
            break
        count, fitted = 2 * count, more
    return fitted


def _fitted(sample: Documents, partitions: Partitions, times: float) -> Fitted:
    quality = assign(sample, [partitions]).quality
    busiest = round(times * int(quality.loads.max(initial=0)))
    per_document = BYTES_PER_DOCUMENT + BYTES_PER_PAIR * len(sample.pairs) // max(1, len(sample))
    return Fitted(partitions, quality, busiest, busiest * per_document)
