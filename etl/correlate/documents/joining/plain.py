"""The baselines in plain Python: dictionaries, sets, early exits, no arrays.

`nested_loop` is also the oracle of the tests: it is the definition. Both yield, for each document in turn, its partners
among earlier ones, so that a caller may stop at any time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise

from etl.correlate.documents.model import Documents

Document = Mapping[Hashable, Hashable]


def as_mappings(documents: Documents) -> list[dict[Hashable, Hashable]]:
    """Documents as dictionaries from attribute to value."""
    attributes, pairs, offsets = documents.attributes.tolist(), documents.pairs.tolist(), documents.offsets.tolist()
    return [dict(zip(attributes[low:high], pairs[low:high], strict=True)) for low, high in pairwise(offsets)]


def joinable(one: Document, other: Document) -> bool:
    """At least one pair is shared, and no attribute has different values."""
    if len(other) < len(one):
        one, other = other, one
    shared = False
    for attribute, value in one.items():
        if attribute in other:
            if other[attribute] != value:
                return False
            shared = True
    return shared


def nested_loop(documents: Sequence[Document]) -> Iterator[list[int]]:
    """NLJ: every document against every earlier one."""
    for position, document in enumerate(documents):
        yield [before for before in range(position) if joinable(documents[before], document)]


def hash_join(documents: Sequence[Document]) -> Iterator[list[int]]:
    """HBJ: an inverted index of pairs; documents that share one are tested for conflicts."""
    index: dict[tuple[Hashable, Hashable], list[int]] = defaultdict(list)
    for position, document in enumerate(documents):
        candidates: set[int] = set()
        for pair in document.items():
            candidates.update(index[pair])
        yield [before for before in sorted(candidates) if joinable(documents[before], document)]
        for pair in document.items():
            index[pair].append(position)
