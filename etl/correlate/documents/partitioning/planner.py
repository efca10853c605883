"""Choose the routing by trial: partitions from one half of a sample are evaluated on the other half (ADR 36).

The candidates are all pairs, and keys that begin with one of the most frequent attributes and grow by the next ones.
The second half shows the cost from the next window on: documents without the key, and with unseen values, are
broadcast. A key that some documents lack gets meeting attributes if that helps. The smallest maximal load wins, on a
tie the smaller replication.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from etl.correlate.documents.joining.tree import attribute_order
from etl.correlate.documents.model import Documents
from etl.correlate.documents.partitioning.assigner import assign
from etl.correlate.documents.partitioning.association import association_groups
from etl.correlate.documents.partitioning.meetings import encounters, meeting_attributes, with_places
from etl.correlate.documents.partitioning.merger import consolidate, partition
from etl.correlate.documents.partitioning.partitions import Partitions
from etl.correlate.documents.partitioning.quality import Quality
from etl.correlate.documents.partitioning.routing import Routing, route

_SAMPLE = 20_000
_FIRST_ATTRIBUTES, _LONGEST_KEY = 6, 3
_LEAST_PRESENCE = 0.5  # a key that more documents lack broadcasts too many


def choose_routing(documents: Documents, partitions: int) -> Routing:
    """The routing that distributes such documents best over `partitions` partitions."""
    positions = np.arange(0, len(documents), max(1, -(-len(documents) // _SAMPLE)), dtype=np.int64)
    sample = documents.take(positions)
    half = len(sample) // 2
    if half < partitions:
        return Routing()
    numbers = np.arange(len(sample), dtype=np.int64)
    seen, unseen = sample.take(numbers[:half]), sample.take(numbers[half:])
    tried = [one for routing in _candidates(sample) for one in _outcomes(seen, unseen, routing, partitions)]
    return min(tried, key=lambda one: (one[0].maximal_load, one[0].replication, len(one[1].key)))[1]


def make_partitions(documents: Documents, routing: Routing, count: int, creators: int = 1) -> Partitions:
    """Creators and merger in one process: association groups of every share, consolidated and partitioned."""
    routed = route(documents, routing)
    groups = [association_groups(routed.part(number, creators)) for number in range(creators)]
    return with_places(partition(consolidate(groups), routing, count), encounters(documents, routing))


def _outcomes(seen: Documents, unseen: Documents, routing: Routing, count: int) -> Iterator[tuple[Quality, Routing]]:
    """The quality of a routing, without meeting attributes and with them."""
    plain = make_partitions(seen, routing, count)
    yield assign(unseen, [plain]).quality, routing
    meeting = meeting_attributes(seen, plain) if routing.key else ()
    if meeting:
        found = replace(routing, meeting=meeting)
        partitions = with_places(replace(plain, routing=found), encounters(seen, found))
        yield assign(unseen, [partitions]).quality, found


def _candidates(sample: Documents) -> Iterator[Routing]:
    yield Routing()
    order = attribute_order(sample)
    presence = np.bincount(sample.attributes, minlength=1)[order] / max(1, len(sample))
    frequent = order[presence >= _LEAST_PRESENCE].tolist()
    paths = [sample.dictionary.attributes[attribute] for attribute in frequent]
    for first in range(min(_FIRST_ATTRIBUTES, len(paths))):
        following = [path for place, path in enumerate(paths) if place != first]
        for others in range(min(_LONGEST_KEY, len(paths))):
            yield Routing((paths[first], *following[:others]))
