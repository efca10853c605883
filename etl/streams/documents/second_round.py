"""The second round of a batch: the rest of a window's bound goes to joiners that found more than their parts (ADR 122).

first round     every joiner makes up to its part of what is left of the bound, and counts all its pairs
in the driver   found and made by joiner ──► what each may still make; nothing to give out: no second round
second round    only those joiners run again, over the same files, and make the pairs that follow their first ones
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from etl.streams.documents.evolve import GatheredDocuments
from etl.streams.documents.state import Allotted, DocumentPlan, MorePairs
from etl.streams.tasks.plan import BatchPlan


def second_round(plan: BatchPlan, gathered: Mapping[str, GatheredDocuments]) -> BatchPlan | None:
    """The plan of the second round; None if nothing is to be made."""
    documents = tuple(
        replace(one, more=_more(one, gathered[one.name])) if one.name in gathered else one for one in plan.documents
    )
    if all(one.more is None for one in documents):
        return None
    streams = tuple(replace(stream, slices=()) for stream in plan.streams)
    return replace(plan, streams=streams, correlations=(), queries=None, readers=1, documents=documents)


def _more(one: DocumentPlan, gathered: GatheredDocuments) -> MorePairs | None:
    allotted: dict[tuple[int, int], Allotted] = {}
    for slot in sorted(gathered.windows):
        left = one.left(slot) - gathered.windows[slot].kept
        for joiner, pairs in sorted(gathered.pairs_of.get(slot, {}).items()):
            more = min(left, pairs.found - pairs.kept)
            if more > 0:
                allotted[slot, joiner] = Allotted(pairs.kept, pairs.kept + more)
                left -= more
    return MorePairs(tuple(gathered.added), allotted) if allotted else None
