"""Compiled loops that sort documents into the order of an FP-tree.

A document is a rising sequence of labels; a prefix sorts before what it is a prefix of.

    all documents ─► blocks, each of which precedes the next ─► each block sorted        (ADR 106)
      one pass          a sorted sample of documents               in the cache
                        gives the splitters
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import allocating_kernel, kernel
from etl.correlate.documents.dictionary import I32, I64

Ranks = npt.NDArray[np.uint16] | I32
"""Of labels, as few bytes as hold them: they are looked up at random."""

_INSERTION = 12  # with fewer documents, insertion sort instead of partitioning
_SHORT = 48  # labels up to which insertion beats a sort
_BLOCK = 4_096  # documents of a block
_DRAWN = 8  # sampled documents per block, for splitters


def labelled(offsets: I64, pairs: I32, pair_label: I32) -> I32:
    """The labels of every document, sorted."""
    labels = np.empty_like(pairs)
    _label_some(offsets, pairs, pair_label, labels)
    return labels


def _label_some(offsets: I64, pairs: I32, pair_label: I32, labels: I32) -> None:
    """The same for adjacent documents, into their places."""
    part = slice(offsets[0], offsets[-1])
    _label(pairs[part], pair_label, labels[part])
    _sort_labels(offsets, labels)


@kernel
def _label(pairs: I32, pair_label: I32, labels: I32) -> None:
    for position in range(len(pairs)):
        labels[position] = pair_label[pairs[position]]


@allocating_kernel
def _sort_labels(offsets: I64, labels: I32) -> None:
    """Sort every document's labels, in place."""
    for document in range(len(offsets) - 1):
        low, high = offsets[document], offsets[document + 1]
        if high - low > _SHORT:
            labels[low:high] = np.sort(labels[low:high])
            continue
        for position in range(low + 1, high):
            label, before = labels[position], position - 1
            while before >= low and labels[before] > label:
                labels[before + 1] = labels[before]
                before -= 1
            labels[before + 1] = label


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


def in_tree_order(
    offsets: I64, pairs: I32, pair_label: I32, rank_of_label: Ranks, block_size: int = _BLOCK
) -> tuple[I64, I64, I32, I32]:  # fmt: skip
    """Sort documents lexicographically: their positions, and the sorted documents as offsets, labels and ranks.

    In two steps, so that a large window is no slower per document than a small one: all documents are distributed to
    blocks, sequentially; then each block, which fits into the processor's cache, is sorted.
    """
    labels, block, blocks = _blocks(offsets, pairs, pair_label, len(rank_of_label), block_size)
    sizes = np.bincount(block, minlength=blocks)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    widths = np.bincount(block, weights=np.diff(offsets), minlength=blocks).astype(np.int64)
    order, ends, laid_out = np.empty(len(block), np.int64), np.zeros(len(offsets), np.int64), np.empty_like(labels)
    _to_blocks(offsets, labels, block, starts[:-1].copy(), np.cumsum(widths) - widths, order, ends, laid_out)
    ranks = labels  # they are not needed any more, and new memory costs more than the loop that fills it
    largest, widest = int(sizes.max(initial=0)), int(widths.max(initial=0))
    _sort_blocks(starts, largest, widest, rank_of_label, order, ends, laid_out, ranks)
    return order, ends, laid_out, ranks


def _blocks(offsets: I64, pairs: I32, pair_label: I32, known: int, size: int) -> tuple[I32, I32, int]:
    """The labels of all documents, sorted in each; the block of each document; and the number of blocks.

    All documents of a block precede those of the next. Some at a time are labelled and find their blocks, so that their
    labels are in the cache.
    """
    count = len(offsets) - 1
    labels, block = np.empty_like(pairs), np.zeros(count, np.int32)
    splitters = _drawn(offsets, pairs, pair_label, size) if count >= 2 * size else []
    ends = np.cumsum([0, *map(len, splitters)])
    begins = np.array([one[0] if len(one) else -1 for one in splitters], np.int64)
    before = np.repeat(np.arange(len(begins) + 1, dtype=np.int32), np.diff(begins, prepend=-1, append=known))
    together = np.concatenate(splitters) if splitters else np.empty(0, np.int32)
    for low in range(0, count, size):
        some = offsets[low : low + size + 1]
        _label_some(some, pairs, pair_label, labels)
        if splitters:
            _find_blocks(some, labels, ends, together, before, block[low : low + size])
    return labels, block, len(splitters) + 1


def _drawn(offsets: I64, pairs: I32, pair_label: I32, size: int) -> list[I32]:
    """Splitters: of some documents, drawn at even distances and sorted, one for each block but the first."""
    drawn = range(0, len(offsets) - 1, max(1, size // _DRAWN))
    taken = [np.sort(pair_label[pairs[offsets[one] : offsets[one + 1]]]) for one in drawn]
    ends, order = np.cumsum([0, *map(len, taken)]), np.arange(len(taken), dtype=np.int64)
    _sort_all(ends, np.concatenate(taken), order)
    return [taken[one] for one in order[_DRAWN::_DRAWN].tolist()]


@kernel
def _find_blocks(
    offsets: I64, labels: I32, splitter_offsets: I64, splitters: I32, before: I32, block: I32
) -> None:  # fmt: skip
    """The number of splitters that are not after each document. `before`: those that begin with a smaller label."""
    for document in range(len(block)):
        first = _label_at(offsets, labels, document, 0)
        low, high = (before[first], before[first + 1]) if first >= 0 else (0, before[0])
        while low < high:  # all of them begin as the document does
            middle, depth = (low + high) // 2, 1
            while True:
                mine = _label_at(offsets, labels, document, depth)
                others = _label_at(splitter_offsets, splitters, middle, depth)
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
    offsets: I64, labels: I32, block: I32, place: I64, filled: I64, order: I64, ends: I64, laid_out: I32
) -> None:
    """Append every document to its block. `place`, `filled`: the starts of blocks, by documents and labels."""
    for document in range(len(block)):
        here = block[document]
        order[place[here]] = document
        to = filled[here]
        for at in range(offsets[document], offsets[document + 1]):
            laid_out[to] = labels[at]
            to += 1
        filled[here] = to
        place[here] += 1
        ends[place[here]] = to


@allocating_kernel
def _sort_all(offsets: I64, labels: I32, order: I64) -> None:
    _sort(offsets, labels, order, np.empty(len(order), np.int32), np.empty((len(order) + 8, 4), np.int64))


@allocating_kernel
def _sort_blocks(
    starts: I64, largest: int, widest: int, rank_of_label: Ranks, order: I64, ends: I64, laid_out: I32, ranks: I32
) -> None:
    """Sort the documents of every block, in place, and look up the ranks of their labels."""
    keys, waiting = np.empty(largest, np.int32), np.empty((largest + 8, 4), np.int64)
    sorted_order, numbers, offsets = (
        np.empty(largest, np.int64),
        np.empty(largest, np.int64),
        np.empty(largest + 1, np.int64),
    )
    labels = np.empty(widest, np.int32)
    for block in range(len(starts) - 1):
        low, count = starts[block], starts[block + 1] - starts[block]
        begin, end = ends[low], ends[low + count]
        labels[: end - begin] = laid_out[begin:end]
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
                laid_out[to], ranks[to] = labels[at], rank_of_label[labels[at]]
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
