"""Algorithm 1: equivalence groups, the implies relationship, association groups. Run by every creator over its share.

    pairs in the same documents ──► one equivalence group               figure 3:  {A:2, C:7}  {B:3}  …
    rarest first: a group absorbs every remaining group that all of its documents hold
                                ──► association groups, which share no pair        {A:2, C:7, B:3}  …

A group is implied only if all documents of the implying group hold it, so it suffices to search those documents: the
work is the number of pairs times the pairs of a document, not the square of the number of groups.
"""

from __future__ import annotations

import numpy as np

from etl.columnar.jit import allocating_kernel as kernel
from etl.correlate.documents.dictionary import I64
from etl.correlate.documents.partitioning.groups import Groups, grouped
from etl.correlate.documents.partitioning.routing import Routed


def association_groups(documents: Routed) -> Groups:
    """The association groups of some documents, with their loads."""
    hashes, codes = np.unique(documents.hashes, return_inverse=True)
    group_of, counts = equivalence_groups(documents.owners, codes, len(hashes))
    held = np.unique(documents.owners * max(1, len(counts)) + group_of[codes])
    document, group = np.divmod(held, max(1, len(counts)))
    offsets, starts = _offsets(np.bincount(document, minlength=len(documents))), _offsets(counts)
    postings = document[np.argsort(group, kind="stable")]
    owner, loads = _associate(offsets, group, starts, postings, len(documents))
    return grouped(owner[group_of], hashes, loads)


def equivalence_groups(owners: I64, codes: I64, pairs: int) -> tuple[I64, I64]:
    """The equivalence group of every pair, and every group's number of documents; groups are numbered rarest first.

    A set of documents is identified by its size and the sums of two random numbers per document.
    """
    random = np.random.default_rng(0).integers(0, 2**63, (2, int(owners.max(initial=-1)) + 1), np.int64)
    sums = np.zeros((3, pairs), np.int64)
    for lane in range(2):
        np.add.at(sums[lane + 1], codes, random[lane, owners])
    sums[0] = np.bincount(codes, minlength=pairs)
    order = np.lexsort((sums[2], sums[1], sums[0]))
    fresh = np.ones(pairs, np.bool_)
    fresh[1:] = (sums[:, order[1:]] != sums[:, order[:-1]]).any(axis=0)
    group_of = np.empty(pairs, np.int64)
    group_of[order] = np.cumsum(fresh) - 1
    return group_of, sums[0, order[fresh]]


def _offsets(lengths: I64) -> I64:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


@kernel
def _associate(offsets: I64, groups: I64, posting_offsets: I64, postings: I64, documents: int) -> tuple[I64, I64]:
    """The association group of every equivalence group, and the load of every association group."""
    count = len(posting_offsets) - 1
    owner, loads = np.full(count, -1, np.int64), np.zeros(count, np.int64)
    held, held_for = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    seen = np.full(documents, -1, np.int64)
    made = 0
    for group in range(count):
        if owner[group] >= 0:
            continue
        own = postings[posting_offsets[group] : posting_offsets[group + 1]]
        owner[group], load = made, 0
        for document in own:
            for position in range(offsets[document], offsets[document + 1]):
                other = groups[position]
                if other <= group or owner[other] >= 0:
                    continue
                held[other] = held[other] + 1 if held_for[other] == group else 1
                held_for[other] = group
                if held[other] == len(own):  # in the last of the documents: in all of them
                    owner[other] = made
                    for posting in postings[posting_offsets[other] : posting_offsets[other + 1]]:
                        load += seen[posting] != made
                        seen[posting] = made
        for document in own:
            load += seen[document] != made
            seen[document] = made
        loads[made] = load
        made += 1
    return owner, loads[:made].copy()
