"""The loops over the keys that two indexes have in common.

A pair of tuples counts for query q if both query sets, and the mask, have bit q.

at_left, at_right     the matched keys, as positions in the left and the right index
offsets, members      of each index
words                 query sets of all rows of the bucket; `mask` which queries are meant
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from etl.columnar.bitsets import U64
from etl.columnar.csr import I32, I64
from etl.columnar.jit import allocating_kernel as kernel

F64 = npt.NDArray[np.float64]


@kernel
def pair_counts(
    left_offsets: I64, left_members: I32, left_words: U64, at_left: I64,
    right_offsets: I64, right_members: I32, right_words: U64, at_right: I64, mask: U64, bits: int,
) -> I64:  # fmt: skip
    """The number of pairs of each query, without materialising: per key the product of both sides' counts."""
    total = np.zeros(len(mask) * 64, np.int64)
    left, right = np.zeros(len(mask) * 64, np.int64), np.zeros(len(mask) * 64, np.int64)
    for at in range(len(at_left)):
        left[:], right[:] = 0, 0
        for i in range(left_offsets[at_left[at]], left_offsets[at_left[at] + 1]):
            for word in range(len(mask)):
                value = left_words[left_members[i], word] & mask[word]
                if value:
                    for bit in range(min(64, bits - word * 64)):
                        left[word * 64 + bit] += np.int64((value >> np.uint64(bit)) & np.uint64(1))
        for i in range(right_offsets[at_right[at]], right_offsets[at_right[at] + 1]):
            for word in range(len(mask)):
                value = right_words[right_members[i], word] & mask[word]
                if value:
                    for bit in range(min(64, bits - word * 64)):
                        right[word * 64 + bit] += np.int64((value >> np.uint64(bit)) & np.uint64(1))
        for bit in range(bits):
            total[bit] += left[bit] * right[bit]
    return total[:bits]


@kernel
def dot(left: I64, at_left: I64, left_columns: I32, right: I64, at_right: I64, right_columns: I32) -> I64:
    """For each query, the sum over common keys of the products of both sides' weights."""
    total = np.zeros(len(left_columns), np.int64)
    for key in range(len(at_left)):
        for query in range(len(total)):
            weight = left[at_left[key], left_columns[query]]
            if weight:
                total[query] += weight * right[at_right[key], right_columns[query]]
    return total


@kernel
def pairs(
    left_offsets: I64, left_members: I32, left_words: U64, at_left: I64,
    right_offsets: I64, right_members: I32, right_words: U64, at_right: I64, mask: U64,
) -> tuple[I32, I32, U64]:  # fmt: skip
    """Materialise the pairs that some query selects: left rows, right rows, query sets."""
    room = 0
    for at in range(len(at_left)):
        nl = left_offsets[at_left[at] + 1] - left_offsets[at_left[at]]
        room += nl * (right_offsets[at_right[at] + 1] - right_offsets[at_right[at]])
    rows_l, rows_r, words = np.empty(room, np.int32), np.empty(room, np.int32), np.empty((room, len(mask)), np.uint64)
    count = 0
    for at in range(len(at_left)):
        for i in range(left_offsets[at_left[at]], left_offsets[at_left[at] + 1]):
            left = left_members[i]
            for j in range(right_offsets[at_right[at]], right_offsets[at_right[at] + 1]):
                right = right_members[j]
                found = np.uint64(0)
                for word in range(len(mask)):
                    value = left_words[left, word] & right_words[right, word] & mask[word]
                    words[count, word] = value
                    found |= value
                if found:
                    rows_l[count], rows_r[count] = left, right
                    count += 1
    return rows_l[:count], rows_r[:count], words[:count]


@kernel
def pair_room(left_offsets: I64, at_left: I64, right_offsets: I64, at_right: I64) -> I64:
    """The number of pairs of each matched key, selected or not."""
    room = np.empty(len(at_left), np.int64)
    for at in range(len(at_left)):
        nl = left_offsets[at_left[at] + 1] - left_offsets[at_left[at]]
        room[at] = nl * (right_offsets[at_right[at] + 1] - right_offsets[at_right[at]])
    return room


@kernel
def semi_join(
    words: U64,
    offsets: I64,
    members: I32,
    at: I64,
    other_words: U64,
    other_offsets: I64,
    other_members: I32,
    other_at: I64,
) -> U64:
    """The query sets of one side after the join: only bits for which the key has a partner on the other side."""
    out = np.zeros_like(words)
    found = np.zeros(words.shape[1], np.uint64)
    for key in range(len(at)):
        found[:] = 0
        for j in range(other_offsets[other_at[key]], other_offsets[other_at[key] + 1]):
            for word in range(len(found)):
                found[word] |= other_words[other_members[j], word]
        for i in range(offsets[at[key]], offsets[at[key] + 1]):
            for word in range(len(found)):
                out[members[i], word] = words[members[i], word] & found[word]
    return out


@kernel
def match_numbers(rows: int, offsets: I64, members: I32, at: I64) -> I32:
    """For every row of a bucket the number of its matched key, -1 without a partner."""
    numbers = np.full(rows, -1, np.int32)
    for key in range(len(at)):
        for i in range(offsets[at[key]], offsets[at[key] + 1]):
            numbers[members[i]] = key
    return numbers


@kernel
def expand(
    numbers: I32, rows: I32, words: U64, offsets: I64, members: I32, at: I64, other_words: U64
) -> tuple[I64, I32, U64]:
    """Join partial results through one more link: positions of the old ones, rows of the new ones, query sets."""
    room = 0
    for i in range(len(rows)):
        key = numbers[rows[i]]
        if key >= 0:
            room += offsets[at[key] + 1] - offsets[at[key]]
    position, partner = np.empty(room, np.int64), np.empty(room, np.int32)
    out = np.empty((room, words.shape[1]), np.uint64)
    count = 0
    for i in range(len(rows)):
        key = numbers[rows[i]]
        if key < 0:
            continue
        for j in range(offsets[at[key]], offsets[at[key] + 1]):
            found = np.uint64(0)
            for word in range(words.shape[1]):
                value = words[i, word] & other_words[members[j], word]
                out[count, word] = value
                found |= value
            if found:
                position[count], partner[count] = i, members[j]
                count += 1
    return position[:count], partner[:count], out[:count]


@kernel
def sum_by(groups: I32, values: I64, size: int) -> I64:
    """Integer sums per group; rows of group -1 are left out."""
    out = np.zeros(size, np.int64)
    for at in range(len(groups)):
        if groups[at] >= 0:
            out[groups[at]] += values[at]
    return out


@kernel
def float_sum_by(groups: I32, values: F64, size: int) -> F64:
    out = np.zeros(size, np.float64)
    for at in range(len(groups)):
        if groups[at] >= 0:
            out[groups[at]] += values[at]
    return out


@kernel
def weigh(weights: I64, numbers: I32, message: I64) -> I64:
    """Rows' weights (initially 1) times their key's factor from a link. Rows without a key get 0."""
    out = np.zeros((len(numbers), message.shape[1]), np.int64)
    for row in range(len(numbers)):
        if numbers[row] >= 0:
            for bit in range(message.shape[1]):
                many = message[numbers[row], bit]
                out[row, bit] = many * weights[row, bit] if len(weights) else many
    return out


@kernel
def key_weights(offsets: I64, members: I32, at: I64, words: U64, places: I32, weights: I64) -> I64:
    """For each key and each query (its bit's place), the sum of weights of the rows with that bit."""
    out = np.zeros((len(at), len(places)), np.int64)
    for key in range(len(at)):
        for i in range(offsets[at[key]], offsets[at[key] + 1]):
            row = members[i]
            for query in range(len(places)):
                has = np.int64((words[row, places[query] >> 6] >> np.uint64(places[query] & 63)) & np.uint64(1))
                if has:
                    out[key, query] += weights[row, query] if len(weights) else 1
    return out
