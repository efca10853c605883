"""DS: documents that share a pair, directly or through others, are one group: no replication, often one huge group."""

from __future__ import annotations

import numpy as np

from etl.columnar.jit import allocating_kernel as kernel
from etl.correlate.documents.dictionary import I64
from etl.correlate.documents.partitioning.groups import Groups, grouped
from etl.correlate.documents.partitioning.routing import Routed


def disjoint_sets(documents: Routed) -> Groups:
    """The connected components of pairs that occur together, with their numbers of documents."""
    hashes, codes = np.unique(documents.hashes, return_inverse=True)
    root = _components(documents.offsets, codes, len(hashes))
    roots, component = np.unique(root, return_inverse=True)
    first = codes[documents.offsets[:-1][np.diff(documents.offsets) > 0]]
    loads = np.bincount(component[first], minlength=len(roots))
    return grouped(component, hashes, loads)


@kernel
def _find(parent: I64, item: int) -> int:
    while parent[item] != item:
        parent[item] = parent[parent[item]]
        item = parent[item]
    return item


@kernel
def _components(offsets: I64, codes: I64, count: int) -> I64:
    parent = np.arange(count)
    for document in range(len(offsets) - 1):
        for position in range(offsets[document] + 1, offsets[document + 1]):
            one, other = _find(parent, codes[offsets[document]]), _find(parent, codes[position])
            parent[max(one, other)] = min(one, other)
    for item in range(count):
        parent[item] = _find(parent, item)
    return parent
