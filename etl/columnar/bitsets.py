"""Sets of queries as bits: one row of 64-bit words per tuple; bit q of the row is set if query q selects the tuple.

    words     uint64 [tuples, ceil(bits / 64)], row after row
    mask      a Python integer: which queries, in a larger numbering, the bits stand for, lowest first
    position  the number of a bit within its row

Two matrices with the same mask are compared by AND. `extract` rewrites a matrix for a smaller mask, so that a join
works on the queries of both sides only, however many exist. Bits beyond the mask's population are always zero.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from etl.columnar.jit import allocating_kernel as kernel

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]

WORD = 64
_ONE = np.uint64(1)


def words_for(bits: int) -> int:
    """How many words hold this many bits; at least one, so that a matrix is never without columns."""
    return max(1, -(-bits // WORD))


def mask_of(positions: Iterable[int]) -> int:
    mask = 0
    for position in positions:
        mask |= 1 << position
    return mask


def positions_of(mask: int) -> list[int]:
    """The bits that are set, lowest first."""
    if mask.bit_length() > 4 * WORD:
        raw = np.frombuffer(mask.to_bytes(-(-mask.bit_length() // 8), "little"), np.uint8)
        positions: list[int] = np.flatnonzero(np.unpackbits(raw, bitorder="little")).tolist()
        return positions
    found = []
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found


def pack(bits: Bools) -> U64:
    """A boolean matrix [tuples, queries] as words."""
    count, queries = bits.shape
    padded = np.zeros((count, words_for(queries) * WORD), bool)
    padded[:, :queries] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def unpack(words: U64, bits: int) -> Bools:
    """The first `bits` bits of every row as a boolean matrix."""
    flat = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), 8 * words.shape[1])
    return np.unpackbits(flat, axis=1, count=bits, bitorder="little").view(bool)


def from_mask(mask: int, bits: int) -> U64:
    """One row that holds the mask itself."""
    return np.frombuffer(mask.to_bytes(words_for(bits) * 8, "little"), np.uint64)


def to_mask(row: U64) -> int:
    return int.from_bytes(np.ascontiguousarray(row).tobytes(), "little")


def union(words: U64) -> int:
    """The bits that some row has."""
    return to_mask(np.bitwise_or.reduce(words, axis=0)) if len(words) else 0


def has_bit(words: U64, position: int) -> Bools:
    """Which rows have the bit."""
    word, shift = divmod(position, WORD)
    return ((words[:, word] >> np.uint64(shift)) & _ONE).astype(bool)


def any_bit(words: U64) -> Bools:
    """Which rows have a bit at all."""
    return np.asarray(words[:, 0] != 0 if words.shape[1] == 1 else words.any(axis=1), bool)


def extract_mask(bits: int, mask: int) -> int:
    """The members of `mask` whose bits are set: bit i of `bits` stands for the i-th lowest member."""
    return mask_of(position for at, position in enumerate(positions_of(mask)) if bits >> at & 1)


def extract(words: U64, source: int, target: int) -> U64:
    """The rows renumbered from mask `source` to mask `target`: bits that the target does not name are dropped,
    bits that the source does not name are zero."""
    if source == target:
        return words
    rank = {position: at for at, position in enumerate(positions_of(source))}
    taken = [rank.get(position, -1) for position in positions_of(target)]
    return _extract(words, np.array(taken, np.int32), words_for(len(taken)))


def select(words: U64, positions: list[int]) -> U64:
    """The rows with only the bits at these positions, moved together."""
    return _extract(words, np.array(positions, np.int32), words_for(len(positions)))


@kernel
def _extract(words: U64, taken: I32, width: int) -> U64:
    out = np.zeros((len(words), width), np.uint64)
    for row in range(len(words)):
        for at in range(len(taken)):
            if taken[at] >= 0:
                bit = (words[row, taken[at] >> 6] >> np.uint64(taken[at] & 63)) & np.uint64(1)
                out[row, at >> 6] |= bit << np.uint64(at & 63)
    return out


@kernel
def gather_and(words: U64, table: U64, cells: I32) -> None:
    """`words[i] &= table[cells[i]]`: one column's selections, all queries at once, for every tuple."""
    for row in range(len(words)):
        cell = cells[row]
        for word in range(words.shape[1]):
            words[row, word] &= table[cell, word]


@kernel
def bit_counts(words: U64, bits: int) -> I64:
    """How many rows have each bit."""
    counts = np.zeros(words.shape[1] * 64, np.int64)
    for row in range(len(words)):
        for word in range(words.shape[1]):
            value = words[row, word]
            if value:
                for bit in range(min(64, bits - word * 64)):
                    counts[word * 64 + bit] += np.int64((value >> np.uint64(bit)) & np.uint64(1))
    return counts[:bits]
