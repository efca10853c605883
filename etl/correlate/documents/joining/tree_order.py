"""Compiled loops that sort documents into the order of an FP-tree.

A document is a rising sequence of labels; a prefix sorts before what it is a prefix of.

    all documents ─► blocks, each of which precedes the next ─► each block sorted        (ADR 106)
      one pass          a sorted sample of documents               in the cache
                        gives the splitters
"""

from __future__ import annotations

import numpy as np

from etl.columnar.jit import allocating_kernel, kernel
from etl.correlate.documents.dictionary import I32, I64

_INSERTION = 12  # with fewer documents, insertion sort instead of partitioning
_SHORT = 48  # labels up to which insertion beats a sort
_BLOCK = 4_096  # documents of a block
_DRAWN = 8  # sampled documents per block, for splitters


def labelled(pairs: I32, pair_label: I32, pair_attribute: I32, attribute_rank: I32) -> tuple[I32, I32]:
    """The label of every pair, and the rank of its attribute."""
    labels, ranks, both = np.empty_like(pairs), np.empty_like(pairs), np.empty((len(pair_label), 2), np.int32)
    _pair_up(pair_label, pair_attribute, attribute_rank, both)
    _label(pairs, both, labels, ranks)
    return labels, ranks


@kernel
def _pair_up(pair_label: I32, pair_attribute: I32, attribute_rank: I32, both: I32) -> None:
    """Interleave label and rank of every pair: one cache miss instead of two."""
    for pair in range(len(pair_label)):
        both[pair, 0], both[pair, 1] = pair_label[pair], attribute_rank[pair_attribute[pair]]


@kernel
def _label(pairs: I32, both: I32, labels: I32, ranks: I32) -> None:
    for position in range(len(pairs)):
        labels[position], ranks[position] = both[pairs[position], 0], both[pairs[position], 1]


@allocating_kernel
def sort_labels(offsets: I64, labels: I32, ranks: I32) -> None:
    """Sort every document's labels, in place, and the ranks of their attributes with them."""
    for document in range(len(offsets) - 1):
        low, high = offsets[document], offsets[document + 1]
        if high - low > _SHORT:
            labels[low:high], ranks[low:high] = np.sort(labels[low:high]), np.sort(ranks[low:high])
            continue
        for position in range(low + 1, high):
            label, rank = labels[position], ranks[position]
            before = position - 1
            while before >= low and labels[before] > label:
                labels[before + 1], ranks[before + 1] = labels[before], ranks[before]
                before -= 1
            labels[before + 1], ranks[before + 1] = label, rank


@kernel
def _label_at(offsets: I64, labels: I32, document: int, depth: int) -> int:
    """The label at a depth; a document that has ended sorts first."""
    position = offsets[document] + depth
    return int(labels[position]) if position < offsets[document + 1] else -1


@kernel
def _precedes(offsets: I64, labels: I32, one: int, other: int, depth: int) -> bool:
    while True:
        mine, others = _label_at(offsets, labels, one, depth), _label_at(offsets, labels, other, depth)
        if mine != others:
            return mine < others
        if mine < 0:
            return one < other  # equal documents in the order of the stream
        depth += 1


@kernel
def _insertion_sort(offsets: I64, labels: I32, order: I64, low: int, high: int, depth: int) -> None:
    for position in range(low + 1, high):
        document = order[position]
        before = position - 1
        while before >= low and _precedes(offsets, labels, document, order[before], depth):
            order[before + 1] = order[before]
            before -= 1
        order[before + 1] = document


def in_tree_order(offsets: I64, labels: I32, ranks: I32, block_size: int = _BLOCK) -> tuple[I64, I64, I32, I32]:
    """Sort documents lexicographically: their positions, and the sorted documents as offsets, labels and ranks.

    In two steps, so that a large window is no slower per document than a small one: all documents are distributed to
    blocks, sequentially; then each block, which fits into the processor's cache, is sorted.
    """
    count = len(offsets) - 1
    order, ends, laid_out = np.empty(count, np.int64), np.zeros(count + 1, np.int64), np.empty_like(labels)
    block, blocks = _blocks(offsets, labels, block_size)
    sizes = np.bincount(block, minlength=blocks)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    widths = np.bincount(block, weights=np.diff(offsets), minlength=blocks).astype(np.int64)
    ranks_out = np.empty_like(ranks)
    _to_blocks(
        offsets, labels, ranks, block, starts[:-1].copy(), np.cumsum(widths) - widths, order, ends, laid_out, ranks_out
    )
    _sort_blocks(starts, int(sizes.max(initial=0)), int(widths.max(initial=0)), order, ends, laid_out, ranks_out)
    return order, ends, laid_out, ranks_out


def _blocks(offsets: I64, labels: I32, size: int) -> tuple[I32, int]:
    """The block of every document, and the number of blocks. All documents of a block precede those of the next."""
    count = len(offsets) - 1
    block = np.zeros(count, np.int32)
    if count < 2 * size:
        return block, 1
    drawn = np.arange(0, count, max(1, size // _DRAWN), dtype=np.int64)
    _sort_all(offsets, labels, drawn)
    splitters = [labels[offsets[one] : offsets[one + 1]] for one in drawn[_DRAWN::_DRAWN].tolist()]
    ends = np.cumsum([0, *map(len, splitters)])
    _find_blocks(offsets, labels, ends, np.concatenate(splitters), block)
    return block, len(splitters) + 1


@kernel
def _find_blocks(offsets: I64, labels: I32, splitter_offsets: I64, splitters: I32, block: I32) -> None:
    """The number of splitters that are not after each document."""
    for document in range(len(block)):
        low, high = 0, len(splitter_offsets) - 1
        while low < high:
            middle, depth = (low + high) // 2, 0
            while True:
                mine, others = (
                    _label_at(offsets, labels, document, depth),
                    _label_at(splitter_offsets, splitters, middle, depth),
                )
                if mine != others or mine < 0:
                    break
                depth += 1
            if mine < others:
                high = middle
            else:
                low = middle + 1
        block[document] = low


@kernel
def _to_blocks(
    offsets: I64, labels: I32, ranks: I32, block: I32, place: I64, filled: I64,
    order: I64, ends: I64, laid_out: I32, ranks_out: I32,
) -> None:  # fmt: skip
    """Append every document to its block. `place`, `filled`: the starts of blocks, by documents and labels."""
    for document in range(len(block)):
        here = block[document]
        order[place[here]] = document
        to = filled[here]
        for at in range(offsets[document], offsets[document + 1]):
            laid_out[to], ranks_out[to] = labels[at], ranks[at]
            to += 1
        filled[here] = to
        place[here] += 1
        ends[place[here]] = to


@allocating_kernel
def _sort_all(offsets: I64, labels: I32, order: I64) -> None:
    _sort(offsets, labels, order, np.empty(len(order), np.int32), np.empty((len(order) + 8, 4), np.int64))


@allocating_kernel
def _sort_blocks(starts: I64, largest: int, widest: int, order: I64, ends: I64, laid_out: I32, ranks: I32) -> None:
    """Sort the documents of every block, in place."""
    keys, waiting = np.empty(largest, np.int32), np.empty((largest + 8, 4), np.int64)
    sorted_order, numbers, offsets = (
        np.empty(largest, np.int64),
        np.empty(largest, np.int64),
        np.empty(largest + 1, np.int64),
    )
    labels, own_ranks = np.empty(widest, np.int32), np.empty(widest, np.int32)
    for block in range(len(starts) - 1):
        low, count = starts[block], starts[block + 1] - starts[block]
        begin, end = ends[low], ends[low + count]
        labels[: end - begin], own_ranks[: end - begin] = laid_out[begin:end], ranks[begin:end]
        for position in range(count):
            sorted_order[position], numbers[position] = position, order[low + position]
            offsets[position] = ends[low + position] - begin
        offsets[count] = end - begin
        _sort(offsets, labels, sorted_order[:count], keys, waiting)
        to = begin
        for position in range(count):
            document = sorted_order[position]
            order[low + position] = numbers[document]
            for at in range(offsets[document], offsets[document + 1]):
                laid_out[to], ranks[to] = labels[at], own_ranks[at]
                to += 1
            ends[low + position + 1] = to


@allocating_kernel
def _sort(offsets: I64, labels: I32, order: I64, keys: I32, waiting: I64) -> None:
    """Sort some documents by quicksort on one label at a time (multikey quicksort).

    The current labels are stored beside the positions: each is fetched from its document once, not in every pass.
    """
    # Pending ranges: from, to, depth, and whether the labels are fetched.
    waiting[0, 0], waiting[0, 1], waiting[0, 2], waiting[0, 3] = 0, len(order), 0, 0
    height = 1
    while height > 0:
        height -= 1
        low, high, depth, fetched = waiting[height]
        if high - low <= _INSERTION:
            _insertion_sort(offsets, labels, order, low, high, depth)
            continue
        if not fetched:
            for position in range(low, high):
                keys[position] = _label_at(offsets, labels, order[position], depth)
        first, middle, last = keys[low], keys[(low + high) // 2], keys[high - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        less, current, greater = low, low, high
        while current < greater:
            label = keys[current]
            if label < pivot:
                order[less], order[current] = order[current], order[less]
                keys[less], keys[current] = keys[current], keys[less]
                less += 1
                current += 1
            elif label > pivot:
                greater -= 1
                order[greater], order[current] = order[current], order[greater]
                keys[greater], keys[current] = keys[current], keys[greater]
            else:
                current += 1
        for start, end, deeper in ((low, less, 0), (greater, high, 0), (less, greater, 1)):
            if deeper == 1 and pivot < 0:
                order[start:end] = np.sort(order[start:end])  # equal documents
            elif end - start > 1:
                waiting[height, 0], waiting[height, 1] = start, end
                waiting[height, 2], waiting[height, 3] = depth + deeper, 1 - deeper
                height += 1
