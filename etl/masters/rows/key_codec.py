"""One sortable code per key, for any key type: all sorting and searching uses codes.

    integer key            int64, the value itself            interpolated where keys are dense, else searched by NumPy
    string or binary key   its bytes, unchanged               searched by a vectorised binary search
    several columns        bytes that order as the columns do, one after the other:
                             integer → 8 bytes, big end first, sign flipped
                             text    → its bytes with 00 escaped as 00 FF, ended by 00 00

Bytes order text like Postgres's COLLATE "C". Every function takes and returns whole arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_SIGN = np.int64(-(2**63))
_FEW = 1_000  # below this, Arrow's own sort of bytes is as fast
_CORRECTIONS = 3  # of an interpolated guess, before falling back to binary search


def of_columns(columns: Sequence[pa.Array]) -> pa.Array:
    """The codes of keys given column by column: int64 or binary."""
    if len(columns) == 1:
        (column,) = columns
        return column if pa.types.is_int64(column.type) else _as_bytes(column)
    return pc.binary_join_element_wise(*[_part(column) for column in columns], pa.scalar(b"", pa.binary()))


def _as_bytes(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64()) if pa.types.is_integer(column.type) else column.cast(pa.binary())


def _part(column: pa.Array) -> pa.Array:
    if pa.types.is_integer(column.type):
        flipped = (column.cast(pa.int64()).to_numpy(zero_copy_only=False) ^ _SIGN).astype(">i8")
        return pa.Array.from_buffers(pa.binary(8), len(column), [None, pa.py_buffer(flipped)]).cast(pa.binary())
    escaped = pc.replace_substring(column.cast(pa.binary()), pattern=b"\x00", replacement=b"\x00\xff")
    return pc.binary_join_element_wise(escaped, pa.scalar(b"\x00\x00", pa.binary()), pa.scalar(b"", pa.binary()))


def numbers(codes: pa.Array) -> npt.NDArray[np.int64]:
    """Integer codes as NumPy sees them, without a copy."""
    array: npt.NDArray[np.int64] = codes.to_numpy()
    return array


def _are_numbers(codes: pa.Array) -> bool:
    return bool(pa.types.is_int64(codes.type))


def search(sorted_codes: pa.Array, wanted: pa.Array, side: Literal["left", "right"] = "left") -> Rows:
    """The insertion position of each wanted code, as in `numpy.searchsorted`."""
    if _are_numbers(sorted_codes):
        return np.searchsorted(numbers(sorted_codes), numbers(wanted), side)
    return _search_bytes(sorted_codes, wanted, np.zeros(len(wanted), np.int64), len(sorted_codes), side)


def search_near(sorted_codes: pa.Array, wanted: pa.Array, first: Rows, rows: int, guess: Rows | None) -> Rows:
    """The position of each wanted code within the `rows` rows from `first` on. Numbers may have a guess."""
    if not _are_numbers(sorted_codes):
        return _search_bytes(sorted_codes, wanted, first, rows, "left")
    return search(sorted_codes, wanted) if guess is None else _corrected(sorted_codes, wanted, first, rows, guess)


def counted_up(wanted: pa.Array, firsts: pa.Array, lasts: pa.Array, pages: Rows, rows: int) -> Rows | None:
    """Interpolation: each code's offset in its page if the codes of the page are consecutive numbers; a guess.

    None where it would mostly be wrong: for text, and where over a fifth of the numbers is missing.
    """
    if not _are_numbers(wanted):
        return None
    low, high = numbers(firsts), numbers(lasts)
    if np.count_nonzero((high - low > rows + rows // 4)[pages]) > len(pages) // 2:
        return None
    return numbers(wanted) - low[pages]


def _corrected(sorted_codes: pa.Array, wanted: pa.Array, first: Rows, rows: int, guess: Rows) -> Rows:
    """Correct a guess by the difference between the wanted code and the one found there; gaps leave a small error."""
    held, want = numbers(sorted_codes), numbers(wanted)
    found: Rows = np.clip(first + guess, first, np.minimum(first + rows, len(held)) - 1)
    off = want - held[found]
    for _ in range(_CORRECTIONS):
        astray = np.flatnonzero(off)
        if not len(astray):
            return found
        start = first[astray]
        found[astray] = np.clip(found[astray] + off[astray], start, np.minimum(start + rows, len(held)) - 1)
        off[astray] = want[astray] - held[found[astray]]
    astray = np.flatnonzero(off)
    found[astray] = np.searchsorted(held, want[astray])
    return found


def _search_bytes(sorted_codes: pa.Array, wanted: pa.Array, low: Rows, rows: int, side: str) -> Rows:
    """Binary search of all wanted codes at once: every round halves the range of each."""
    high = np.minimum(low + rows, len(sorted_codes))
    goes_right = pc.less if side == "left" else pc.less_equal
    for _ in range(rows.bit_length()):
        middle = (low + high) >> 1
        probe = sorted_codes.take(pa.array(np.minimum(middle, len(sorted_codes) - 1)))
        right = _mask(goes_right(probe, wanted)) & (low < high)
        low, high = np.where(right, middle + 1, low), np.where(right, high, np.minimum(middle, high))
    return low


def inside(ordered: pa.Array, firsts: pa.Array, lasts: pa.Array) -> tuple[Mask, Rows]:
    """Which sorted codes lie in one of these ascending ranges, and the range of each of those."""
    starts, ends = search(ordered, firsts), search(ordered, lasts, "right")
    ranges = np.repeat(np.arange(len(firsts)), ends - starts)
    if len(ranges) == len(ordered):
        return np.ones(len(ordered), np.bool_), ranges
    edges = np.zeros(len(ordered) + 1, np.int64)
    np.add.at(edges, starts, 1)
    np.subtract.at(edges, ends, 1)
    return np.cumsum(edges[:-1]) > 0, ranges


def argsort(codes: pa.Array) -> Rows:
    """The stable order of codes."""
    if _are_numbers(codes):
        return np.argsort(numbers(codes), kind="stable")
    if len(codes) < _FEW:
        return np.asarray(pc.sort_indices(codes)).astype(np.int64)
    heads = _heads(codes)
    order = np.argsort(heads, kind="stable")
    heads = heads[order]
    tied = np.zeros(len(order), np.bool_)
    tied[1:] = heads[1:] == heads[:-1]
    tied[:-1] |= tied[1:]
    if tied.any():  # equal heads are compared by the whole code
        rows = order[tied]
        again = pc.sort_indices(
            pa.table({"head": heads[tied], "code": codes.take(pa.array(rows))}),
            sort_keys=[("head", "ascending"), ("code", "ascending")],
        )
        order[tied] = rows[np.asarray(again)]
    return order


def _heads(codes: pa.Array) -> npt.NDArray[np.uint64]:
    """The first eight bytes in which the codes differ, as numbers: sorting them is ten times faster."""
    least, most = (bytes(end.as_py()) for end in pc.min_max(codes).values())
    shared = next((at for at, (one, other) in enumerate(zip(least, most, strict=False)) if one != other), len(least))
    offsets = np.frombuffer(codes.buffers()[1], np.int32, len(codes) + 1, codes.offset * 4).astype(np.int64)
    data = np.frombuffer(codes.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(padded) - 7,), ">u8", padded, 0, (1,))
    left = np.clip(np.diff(offsets) - shared, 0, 8).astype(np.uint64)
    heads = words[np.minimum(offsets[:-1] - offsets[0] + shared, len(data))].astype(np.uint64)
    beyond = (np.uint64(64) - (left << np.uint64(3))) & np.uint64(63)
    return np.where(left == 0, np.uint64(0), heads >> beyond << beyond)


def sorted_distinct(codes: pa.Array) -> pa.Array:
    """The codes once each, in order."""
    if _are_numbers(codes):
        ordered = np.sort(numbers(codes))
        return pa.array(ordered[firsts_of(ordered)])
    ordered = take(codes, argsort(codes))
    new = first_of_equals(ordered)
    return ordered if new.all() else ordered.filter(pa.array(new))


def firsts_of(ordered: npt.NDArray[np.int64]) -> Mask:
    """A mask of the first occurrence of each value in a sorted array."""
    new = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new


def first_of_equals(ordered: pa.Array) -> Mask:
    """A mask of the first occurrence of each of the sorted codes."""
    if _are_numbers(ordered):
        return firsts_of(numbers(ordered))
    new = np.ones(len(ordered), np.bool_)
    if len(ordered) > 1:
        new[1:] = _mask(pc.not_equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)))
    return new


def equal(left: pa.Array, right: pa.Array) -> Mask:
    """Elementwise left = right."""
    if _are_numbers(left):
        same: Mask = numbers(left) == numbers(right)
        return same
    return _mask(pc.equal(left, right))


def at_most(left: pa.Array, right: pa.Array) -> Mask:
    """Elementwise left ≤ right."""
    if _are_numbers(left):
        below: Mask = numbers(left) <= numbers(right)
        return below
    return _mask(pc.less_equal(left, right))


def first_not_rising(codes: pa.Array) -> int | None:
    """The first row whose code is not greater than the one before it."""
    if len(codes) < 2:
        return None
    below = at_most(codes.slice(1), codes.slice(0, len(codes) - 1))
    return int(np.argmax(below)) + 1 if below.any() else None


def take(codes: pa.Array, rows: Rows) -> pa.Array:
    """Some codes, by row."""
    if _are_numbers(codes):
        return pa.array(numbers(codes)[rows])
    return codes.take(pa.array(rows))


def concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """Codes one after the other."""
    return pa.concat_arrays(arrays)


def _mask(array: Any) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask


def stretches(pages: Rows) -> Iterator[tuple[int, int]]:
    """Ascending page numbers as runs of consecutive ones: first page, and the one after the last."""
    if len(pages):
        for stretch in np.split(pages, np.flatnonzero(np.diff(pages) != 1) + 1):
            yield int(stretch[0]), int(stretch[-1]) + 1
