"""SC: partitions are unions of documents that cover all pairs; tuned to send a document to few partitions.

It seeds m partitions with the documents that have most uncovered pairs (on a tie, fewest covered ones). Then, while a
document has uncovered pairs, the one with most of them (on a tie, the smallest) goes to the partition with the least
load, on a tie to the one with most common pairs. A pair may end up in several partitions.
"""

from __future__ import annotations

import numpy as np

from etl.columnar.jit import allocating_kernel as kernel
from etl.correlate.documents.dictionary import I64
from etl.correlate.documents.partitioning.partitions import Partitions, bits
from etl.correlate.documents.partitioning.routing import Routed, Routing


def set_cover(documents: Routed, routing: Routing, count: int) -> Partitions:
    """The partitions of the set-cover heuristic."""
    hashes, codes = np.unique(documents.hashes, return_inverse=True)
    by_size = np.argsort(np.diff(documents.offsets), kind="stable")
    document, target, loads = _cover(documents.offsets, codes, by_size, len(hashes), count)
    lengths = np.diff(documents.offsets)[document]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    source = np.repeat(documents.offsets[document] - offsets[:-1], lengths) + np.arange(offsets[-1])
    masks = bits(np.repeat(target, lengths), count)
    return Partitions.of(routing, count, documents.hashes[source], masks, loads)


@kernel
def _uncovered(offsets: I64, codes: I64, covered: I64, document: int) -> int:
    count = 0
    for position in range(offsets[document], offsets[document + 1]):
        count += covered[codes[position]] == 0
    return count


@kernel
def _cover(offsets: I64, codes: I64, by_size: I64, pairs: int, partitions: int) -> tuple[I64, I64, I64]:
    """Assign documents to partitions."""
    documents = len(offsets) - 1
    covered, holders = np.zeros(pairs, np.int64), np.zeros((pairs, partitions), np.bool_)
    loads = np.zeros(partitions, np.int64)
    chosen, target, count = np.empty(documents, np.int64), np.empty(documents, np.int64), 0
    longest = 0
    for document in range(documents):
        longest = max(longest, offsets[document + 1] - offsets[document])
    left = np.full(documents, -1, np.int64)  # uncovered pairs when the document was last examined
    for document in by_size:
        left[document] = _uncovered(offsets, codes, covered, document)
    for wanted in range(longest, 0, -1):
        for document in by_size:
            if left[document] < wanted:
                continue
            left[document] = _uncovered(offsets, codes, covered, document)
            if left[document] < wanted:
                continue
            best = count if count < partitions else 0
            common, most = np.zeros(partitions, np.int64), np.int64(-1)
            for position in range(offsets[document], offsets[document + 1]):
                common += holders[codes[position]]
            if count >= partitions:
                least = loads.min()
                for partition in range(partitions):
                    if loads[partition] == least and common[partition] > most:
                        best, most = partition, common[partition]
            for position in range(offsets[document], offsets[document + 1]):
                covered[codes[position]] = 1
                holders[codes[position], best] = True
            chosen[count], target[count] = document, best
            loads[best] += 1
            left[document] = 0
            count += 1
    return chosen[:count].copy(), target[:count].copy(), loads
