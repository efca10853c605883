"""Keys as numbers, so that every probe is NumPy arithmetic.

    int64 key              lo = the value                          exact
    (int64, int64) key     lo, hi = both values                    exact
    strings, other structs lo, hi = a 128-bit fingerprint          checked again against the key itself by the caller

Why two lanes: with 64 bits, ten million master rows and a million pending tuples would collide by chance once in two
million batches; with 128 bits, never in the life of the machine. `Keys.exact` keeps the Arrow keys where the lanes
cannot be turned back into them (the ports are asked with real keys).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from etl.columnar.errors import KeyTypeMismatch, KeyTypeUnsupported

U64 = npt.NDArray[np.uint64]
I64 = npt.NDArray[np.int64]

_SEEDS = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))
_MIX_A, _MIX_B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S3, _S32 = (np.uint64(shift) for shift in (30, 27, 31, 3, 32))


@dataclass(frozen=True, slots=True)
class Keys:
    """Distinct or repeated keys, never NULL."""

    lo: U64
    hi: U64 | None
    exact: pa.Array | None  # None: `lo` is the key
    type: pa.DataType

    def __len__(self) -> int:
        return len(self.lo)

    def take(self, rows: npt.NDArray[Any] | slice) -> Keys:
        exact = None if self.exact is None else _take(self.exact, rows)
        return Keys(self.lo[rows], None if self.hi is None else self.hi[rows], exact, self.type)

    def arrow(self) -> pa.Array:
        """The keys as Arrow, for the ports."""
        if self.exact is not None:
            return self.exact
        return pa.array(self.lo.view(np.int64), pa.int64()).cast(self.type)

    @property
    def nbytes(self) -> int:
        exact = 0 if self.exact is None else self.exact.nbytes
        return self.lo.nbytes + (0 if self.hi is None else self.hi.nbytes) + exact


@dataclass(frozen=True, slots=True)
class Distinct:
    """The distinct keys among repeated ones: `codes[i]` is the number of tuple i's key."""

    codes: I64
    first: I64  # a tuple that has this key
    counts: I64


def _take(array: pa.Array, rows: npt.NDArray[Any] | slice) -> pa.Array:
    if isinstance(rows, slice):
        start, stop, _ = rows.indices(len(array))
        return array.slice(start, max(0, stop - start))
    if rows.dtype == np.bool_:
        rows = np.flatnonzero(rows)
    return array.take(pa.array(rows))


def to_contiguous(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array, dictionaries decoded."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    """A mask of the keys that are complete: neither NULL nor, in a struct, NULL in any field."""
    mask = np.asarray(array.is_valid())
    if pa.types.is_struct(array.type):
        for part in array.flatten():
            mask = mask & np.asarray(part.is_valid())
    return mask


def kind(key_type: pa.DataType) -> str:
    """The kind of a key type, whatever its width: keys of one kind can be compared."""
    if pa.types.is_struct(key_type):
        return "struct(" + ", ".join(kind(part.type) for part in key_type) + ")"
    if pa.types.is_integer(key_type) and not pa.types.is_uint64(key_type):  # values beyond 2^63 would compare wrongly
        return "integer"
    if _is_text(key_type):
        return "string"
    if pa.types.is_binary(key_type) or pa.types.is_large_binary(key_type):
        return "binary"
    raise KeyTypeUnsupported(str(key_type))


def _is_text(key_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(key_type) or pa.types.is_large_string(key_type))


def same_kind(given: pa.DataType, expected: pa.DataType, of: str = "") -> None:
    """Refuse keys whose type alone makes a match impossible; `of` names the master in the message."""
    if kind(given) != kind(expected):
        raise KeyTypeMismatch(str(given), str(expected), of)


def encode(array: pa.Array | pa.ChunkedArray) -> Keys:
    """The lanes of keys that hold no NULL."""
    array = to_contiguous(array)
    kind(array.type)
    if pa.types.is_integer(array.type):
        return Keys(_integers(array), None, None, array.type)
    parts = array.flatten() if pa.types.is_struct(array.type) else [array]
    if len(parts) == 2 and all(pa.types.is_integer(part.type) for part in parts):
        return Keys(_integers(parts[0]), _integers(parts[1]), array, array.type)
    lo, hi = (_fingerprint(parts, seed) for seed in _SEEDS)
    return Keys(lo, hi, array, array.type)


def _integers(array: pa.Array) -> U64:
    return np.ascontiguousarray(array.cast(pa.int64()).to_numpy(zero_copy_only=False)).view(np.uint64)


def mix(x: U64) -> U64:
    x = (x ^ (x >> _S30)) * _MIX_A
    x = (x ^ (x >> _S27)) * _MIX_B
    return x ^ (x >> _S31)


def _fingerprint(parts: list[pa.Array], seed: np.uint64) -> U64:
    state = np.full(len(parts[0]), seed, np.uint64)
    for part in parts:
        state = mix(state ^ _integers(part)) if pa.types.is_integer(part.type) else _fold_bytes(state, part)
    return state


def fingerprint64(parts: list[pa.Array]) -> I64:
    """A 64-bit fingerprint over the values of several columns without NULLs."""
    return _fingerprint(parts, _SEEDS[0]).view(np.int64)


def _fold_bytes(state: U64, part: pa.Array) -> U64:
    """Folds the bytes of each string into its state, eight at a time: the loop is over words, not over strings."""
    wide = part.cast(pa.large_string() if _is_text(part.type) else pa.large_binary())
    offsets = np.frombuffer(wide.buffers()[1], np.int64, len(wide) + 1, wide.offset * 8)
    data = np.frombuffer(wide.buffers()[2] or b"", np.uint8)
    padded = np.concatenate([data[offsets[0] : offsets[-1]], np.zeros(8, np.uint8)])
    words = np.ndarray((len(padded) - 7,), "<u8", padded, 0, (1,))
    start, length = offsets[:-1] - offsets[0], np.diff(offsets)
    state = mix(state ^ length.view(np.uint64))  # ("ab", "c") is not ("a", "bc")
    rows = np.flatnonzero(length > 0)
    done = 0
    while len(rows):
        left = np.minimum(length[rows] - done, 8).astype(np.uint64)
        word = words[start[rows] + done] & (np.uint64(0xFFFFFFFFFFFFFFFF) >> (np.uint64(64) - (left << _S3)))
        state[rows] = mix((state[rows] ^ word) + _MIX_B)
        done += 8
        rows = rows[length[rows] > done]
    return state


def hash_uniform(numbers: I64) -> npt.NDArray[np.float64]:
    """A pseudo-random number in [0, 1) for each integer, by hashing: the same every time."""
    return (mix(numbers.view(np.uint64)) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def distinct(keys: Keys) -> Distinct:
    """Dictionary-encode the keys (Arrow's hash table), in order of first appearance."""
    codes = _codes(keys.lo)
    if keys.hi is not None:
        high = _codes(keys.hi)
        codes = _codes((codes * (int(high.max(initial=0)) + 1) + high).view(np.uint64))
    counts = np.bincount(codes) if len(codes) else np.zeros(0, np.int64)
    first = np.empty(len(counts), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return Distinct(codes, first, counts)


def in_key_order(keys: Keys) -> Distinct:
    """The same in key order, as masters are sorted, where keys have one lane; else in order of first appearance."""
    if keys.hi is not None:
        return distinct(keys)
    order = np.argsort(keys.lo)
    ordered = keys.lo[order]
    new = np.ones(len(order), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    codes = np.empty(len(order), np.int64)
    codes[order] = np.cumsum(new) - 1
    return Distinct(codes, order[starts], np.diff(starts, append=len(order)))


def approx_distinct(keys: Keys) -> int:
    """How many distinct keys there are: exact below 1,024 keys, within about one percent above, and much faster.

    Linear counting: keys are hashed into twice as many buckets as there are keys; the empty buckets give the estimate.
    """
    if len(keys) < 1024:
        return len(distinct(keys).first)
    buckets = 2 * len(keys)
    word = mix(keys.lo if keys.hi is None else keys.lo ^ mix(keys.hi))
    occupied = np.zeros(buckets, bool)
    occupied[((word >> _S32) * np.uint64(buckets)) >> _S32] = True
    empty = buckets - int(np.count_nonzero(occupied))
    return min(len(keys), round(-buckets * float(np.log(empty / buckets))))


def _codes(values: U64) -> I64:
    encoded = pa.array(values).dictionary_encode()
    return np.asarray(encoded.indices).astype(np.int64)


def match_rows(table_keys: Keys, wanted: Keys) -> I64:
    """For each wanted key the row of `table_keys` that holds it, or -1. For one-off probes without an index."""
    if table_keys.hi is None:
        if np.array_equal(table_keys.lo, wanted.lo):  # as when a sorted master has all of the sorted keys
            return np.arange(len(wanted))
        found = pc.index_in(pa.array(wanted.lo), value_set=pa.array(table_keys.lo))
        return np.asarray(found.fill_null(-1)).astype(np.int64)
    both = Keys(
        np.concatenate([table_keys.lo, wanted.lo]),
        np.concatenate([table_keys.hi, _hi(wanted)]),
        None,
        wanted.type,
    )
    codes = distinct(both).codes
    row = np.full(len(both), -1, np.int64)
    row[codes[: len(table_keys)]] = np.arange(len(table_keys))
    return row[codes[len(table_keys) :]]


def _hi(keys: Keys) -> U64:
    assert keys.hi is not None, "keys of one join all have the same lanes"
    return keys.hi
