"""Join values as 64-bit codes: integers, dates and times are their own code, anything else is hashed.

Equal values have equal codes. Where codes are hashes (`exact` is false), equal codes are only candidates and the values
themselves are compared. A NULL has no code: it equals nothing, and rows with one are dropped before the join.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

I64 = npt.NDArray[np.int64]
_HASH_KEY = "frontstage-joins"


@dataclass(frozen=True, slots=True)
class Codes:
    values: I64
    exact: bool


def is_exact(kind: pa.DataType) -> bool:
    """Whether values of a type are their own codes."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)
    ) and not pa.types.is_duration(kind)  # fmt: skip


def encode(column: pa.ChunkedArray) -> Codes:
    """The codes of a column without nulls."""
    kind = column.type
    if not is_exact(kind):
        return Codes(_hashed(column), False)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
    elif pa.types.is_uint64(kind):
        return Codes(column.to_numpy().view(np.int64), True)
    return Codes(np.asarray(column.to_numpy(), np.int64), True)


def _hashed(column: pa.ChunkedArray) -> I64:
    """A hash per value; text is hashed once per distinct value."""
    encoded = pc.dictionary_encode(pc.cast(column, pa.string())).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], pa.string()).dictionary_encode()
    words = encoded.dictionary.to_numpy(zero_copy_only=False).astype(object)
    hashes = pd.util.hash_array(words, hash_key=_HASH_KEY, categorize=False)
    return np.asarray(hashes[encoded.indices.to_numpy()].view(np.int64) if len(words) else np.empty(0, np.int64))


def combine(parts: list[Codes]) -> Codes:
    """One code for several columns; one column keeps its own."""
    if len(parts) == 1:
        return parts[0]
    mixed = np.zeros(len(parts[0].values), np.uint64)
    for part in parts:
        mixed = mix((mixed ^ part.values.view(np.uint64)).view(np.int64))
    return Codes(mixed.view(np.int64), False)


def mix(codes: I64) -> npt.NDArray[np.uint64]:
    """A 64-bit finaliser: nearby codes end up far apart (splitmix64)."""
    with np.errstate(over="ignore"):
        x = codes.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
