"""The compiled descent of an FP-tree, for many documents one after the other.

At a node, per attribute that its children have (a *group*), one of four ways:

    the document has the attribute         1. enter the child with its value, if any; a pair is shared from there on
    it has not, and nothing below the      2. all documents below join if a pair is shared already, none otherwise:
    group has an attribute of it              one run, without looking at a node
    it has not, no pair is shared yet,     3. jump to the nodes below that hold a pair of the document (the header
    and few nodes below hold one of its       table), unless an attribute on the path up to here is the document's too:
                                              then it conflicts, or was entered further up
    otherwise                              4. enter every child

Way 3 is what keeps documents without a frequent attribute from walking through the whole tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from etl.columnar.jit import allocating_kernel as kernel
from etl.correlate.documents.dictionary import I32, I64, U64

ABSENT, UNKNOWN = -2, -1  # the document has not the attribute; it has it with a value that the tree has not


class TreeArrays(NamedTuple):
    """What the descent reads. Node 0 is the root; nodes are in preorder."""

    label: I32
    parent: I32
    label_rank: I32  # the rank of every label's attribute
    first: I32  # documents of a node's subtree: first … end, those that end here: first … own_end
    own_end: I32
    end: I32
    group_offsets: I64  # groups of every node
    group_rank: I32  # the attribute that a group's nodes have
    group_start: I64  # nodes of a group, in `children`
    children: I32
    child_label: I32
    below: U64  # one bit per attribute modulo 64: what the nodes below have
    group_below: U64
    header_offsets: I64  # nodes of every label, in preorder
    header: I32
    ranks: int


class Probe(NamedTuple):
    """One document on its way down."""

    number: int
    limit: int  # only the first `limit` documents of the tree count
    mask: np.uint64  # its attributes, one bit each modulo 64
    low: int  # its pairs
    high: int


@kernel
def descend(tree: TreeArrays, offsets: I64, ranks: I32, labels: I32, limits: I64) -> I32:
    """Runs (document, from, to) of joinable documents, for each document among the first `limits` of the tree."""
    values = np.full(tree.ranks, ABSENT, np.int32)  # of the probing document, by rank
    stack = np.empty(len(tree.first) + 1, np.int64)  # nodes to visit, doubled, plus one when a pair is shared
    found, count = np.empty((1024, 3), np.int32), 0
    for number in range(len(offsets) - 1):
        low, high, mask, known = offsets[number], offsets[number + 1], np.uint64(0), False
        for position in range(low, high):
            if ranks[position] >= 0:
                values[ranks[position]] = labels[position]
                known |= labels[position] >= 0
                mask |= np.uint64(1) << np.uint64(ranks[position] & 63)
        if known and limits[number] > 0:
            probe = Probe(number, limits[number], mask, low, high)
            found, count = _descend_one(tree, probe, values, labels, stack, found, count)
        for position in range(low, high):
            if ranks[position] >= 0:
                values[ranks[position]] = ABSENT
    return found[:count].copy()


@kernel
def _descend_one(
    tree: TreeArrays, probe: Probe, values: I32, labels: I32, stack: I64, found: I32, count: int
) -> tuple[I32, int]:
    stack[0], height = 0, 1
    while height > 0:
        height -= 1
        node, shared = stack[height] >> 1, stack[height] & 1
        own_end = min(probe.limit, int(tree.own_end[node]))
        if shared and own_end > tree.first[node]:
            found, count = _emit(found, count, probe.number, int(tree.first[node]), own_end)
        for group in range(tree.group_offsets[node], tree.group_offsets[node + 1]):
            start, stop = tree.group_start[group], tree.group_start[group + 1]
            first = int(tree.first[tree.children[start]])
            if first >= probe.limit:
                break
            value = values[tree.group_rank[group]]
            if value == ABSENT and (tree.group_below[group] & probe.mask) == 0:
                if shared:
                    last = min(probe.limit, int(tree.end[tree.children[stop - 1]]))
                    found, count = _emit(found, count, probe.number, first, last)
            elif value == ABSENT and (shared or not _few_below(tree, group, probe, labels)):
                for place in range(start, stop):
                    child = int(tree.children[place])
                    if tree.first[child] >= probe.limit:
                        break
                    if (tree.below[child] & probe.mask) != 0:
                        stack[height] = 2 * child + shared
                        height += 1
                    elif shared:
                        last = min(probe.limit, int(tree.end[child]))
                        found, count = _emit(found, count, probe.number, int(tree.first[child]), last)
            elif value == ABSENT:
                height = _jump(tree, node, group, probe, values, labels, stack, height)
            elif value >= 0:
                place = lower_bound(tree.child_label, start, stop, value)
                if place < stop and tree.child_label[place] == value and tree.first[tree.children[place]] < probe.limit:
                    stack[height] = 2 * int(tree.children[place]) + 1
                    height += 1
    return found, count


@kernel
def _few_below(tree: TreeArrays, group: int, probe: Probe, labels: I32) -> bool:
    """Whether fewer nodes below a group hold a pair of the document than the group has nodes."""
    allowed = tree.group_start[group + 1] - tree.group_start[group]
    for position in range(probe.low, probe.high):
        if labels[position] >= 0 and tree.label_rank[labels[position]] > tree.group_rank[group]:
            low, high = _holding(tree, group, labels[position])
            allowed -= high - low
            if allowed < 0:
                return False
    return True


@kernel
def _holding(tree: TreeArrays, group: int, label: int) -> tuple[int, int]:
    """Nodes with a label below a group, as a part of the header table."""
    first = tree.children[tree.group_start[group]]
    last_child = tree.children[tree.group_start[group + 1] - 1]
    low = lower_bound(tree.header, tree.header_offsets[label], tree.header_offsets[label + 1], first)
    # Nodes are in preorder, as their documents are: below the last child are those whose documents are its documents.
    high, end = low, tree.header_offsets[label + 1]
    step_end = end
    while high < step_end:
        middle = (high + step_end) // 2
        if tree.first[tree.header[middle]] < tree.end[last_child]:
            high = middle + 1
        else:
            step_end = middle
    return low, high


@kernel
def _jump(
    tree: TreeArrays, node: int, group: int, probe: Probe, values: I32, labels: I32, stack: I64, height: int
) -> int:
    """Visit the nodes below a group that hold the first shared pair of their path."""
    for position in range(probe.low, probe.high):
        if labels[position] < 0 or tree.label_rank[labels[position]] <= tree.group_rank[group]:
            continue
        low, high = _holding(tree, group, labels[position])
        for place in range(low, high):
            target = int(tree.header[place])
            if tree.first[target] >= probe.limit:
                break
            above = tree.parent[target]
            while above != node and values[tree.label_rank[tree.label[above]]] == ABSENT:
                above = tree.parent[above]
            if above == node:
                stack[height] = 2 * target + 1
                height += 1
    return height


@kernel
def _emit(found: I32, count: int, probe: int, low: int, high: int) -> tuple[I32, int]:
    """Append a run; the array is doubled when it is full."""
    if count == len(found):
        larger = np.empty((2 * count, 3), np.int32)
        larger[:count] = found
        found = larger
    found[count, 0], found[count, 1], found[count, 2] = probe, low, high
    return found, count + 1


@kernel
def lower_bound(values: I32, low: int, high: int, wanted: int) -> int:
    """The first place whose value is not smaller."""
    while low < high:
        middle = (low + high) // 2
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low
