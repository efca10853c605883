"""A hash multi-map that is built once: rows lie bucket by bucket, a directory says where each bucket begins.

    key ──hash──► its upper bits give the bucket ──directory──► rows [offsets[b], offsets[b + 1])

Built by a counting sort: two passes over the keys, no comparisons. Probes in the order of their hash read directory and
rows sequentially, almost without cache misses, so the cost of a probe hardly depends on the size of the map. There are
as many buckets as rows: five bytes of directory per row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import uint64

from etl.columnar.jit import allocating_kernel, kernel

I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

_LOCAL = 1 << 14  # buckets for sorting probes: fine enough for locality, few enough to stay in the cache


@kernel
def mixed(lo: np.uint64, hi: np.uint64) -> np.uint64:
    """The hash of a key of two lanes: all bits depend on all bits."""
    x = lo ^ (hi * uint64(0xD6E8FEB86659FD93))
    x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
    return x ^ (x >> uint64(31))


@allocating_kernel
def hashes(lo: U64, hi: U64) -> U64:
    """Hashes of keys; `hi` may be empty."""
    out = np.empty(len(lo), np.uint64)
    two = len(hi) > 0
    for i in range(len(lo)):
        out[i] = mixed(lo[i], hi[i] if two else uint64(0))
    return out


@kernel
def bucket_of(hashed: np.uint64, buckets: np.uint64) -> np.uint64:
    """A bucket that rises with the hash, for any number of buckets below 2^32."""
    return ((hashed >> uint64(32)) * buckets) >> uint64(32)


@allocating_kernel
def counting_sort(hashed: U64, buckets: int) -> tuple[I32, I32]:
    """Rows in order of their bucket (stable), and where each bucket begins."""
    count = uint64(buckets)
    offsets = np.zeros(buckets + 1, np.int32)
    for i in range(len(hashed)):
        offsets[bucket_of(hashed[i], count) + uint64(1)] += 1
    for b in range(buckets):
        offsets[b + 1] += offsets[b]
    begin = offsets[:-1].copy()
    order = np.empty(len(hashed), np.int32)
    for i in range(len(hashed)):
        bucket = bucket_of(hashed[i], count)
        order[begin[bucket]] = i
        begin[bucket] += 1
    return order, offsets


@allocating_kernel
def bucket_tags(hashed: U64, buckets: int) -> U8:
    """A byte per bucket: the bit of each key that is in it, an eighth of the bucket's range each.

    Checked first by a probe. Most absent keys are rejected by one byte, and bytes of neighbouring
    buckets share a cache line.
    """
    tags = np.zeros(buckets + 1, np.uint8)
    eighths = uint64(8 * buckets)
    for i in range(len(hashed)):
        eighth = bucket_of(hashed[i], eighths)
        tags[eighth >> uint64(3)] |= np.uint8(1 << (eighth & uint64(7)))
    return tags


def local_order(hashed: U64) -> I32:
    """An order of probes in which neighbours access neighbouring buckets."""
    order, _ = counting_sort(hashed, _LOCAL)
    return np.asarray(order)
