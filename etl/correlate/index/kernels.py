"""The inner loops of a probe: one run of stored tuples against a batch of probes.

A row of the run matches a probe when
    its key is the probe's                         hash runs only
    low <= value <= high                           if there is a band
    first <= time <= until                         not checked if the whole run lies between (theorem 1's other half)
    it was stored before the probe came            only among tuples of one batch
Runs outside a probe's time range are skipped without being read. An empty array disables its check.

Results grow in place; at `limit` results the loop stops and returns the position to continue from, so that residual
conditions are evaluated on blocks of bounded size.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import uint64

from etl.columnar.jit import allocating_kernel, kernel
from etl.columnar.multimap import bucket_of
from etl.columnar.sorted_index import gallop

I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]
_CHUNK = 2048  # probes whose intermediate results stay in the first-level cache
Found = tuple[int, int, I64, I64, int, int]  # count, next probe, rows, probes, looked up, not time-checked


@allocating_kernel
def _larger(array: I64) -> I64:
    out = np.empty(2 * len(array), np.int64)
    out[: len(array)] = array
    return out


@kernel
def _filter_by_tags(tags: U8, eighths: np.uint64, hashed: U64, begin: int, end: int, out: I64) -> int:
    """Branch-free filter of the probes from begin to end by their buckets' tags: most of them are rejected."""
    count = 0
    for p in range(begin, end):
        eighth = bucket_of(hashed[p], eighths)
        out[count] = p
        count += int((tags[eighth >> uint64(3)] >> (eighth & uint64(7))) & 1)
    return count


@kernel
def _buckets(offsets: I32, hashed: U64, probes: I64, count: int, begins: I32, ends: I32) -> None:
    """Bounds of the probes' buckets, in independent loads."""
    buckets = uint64(len(offsets) - 1)
    for i in range(count):
        bucket = bucket_of(hashed[probes[i]], buckets)
        begins[i], ends[i] = offsets[bucket], offsets[bucket + uint64(1)]


@kernel
def _first_keys(lo: U64, begins: I32, count: int, out: U64) -> None:
    """Prefetch the first key of every bucket, so that cache misses overlap."""
    last = len(lo) - 1
    for i in range(count):
        out[i] = lo[min(begins[i], last)]


@allocating_kernel
def probe_hash(
    offsets: I32, tags: U8, lo: U64, hi: U64, times: I64, value: I64, place: I64, earliest: np.int64, latest: np.int64,
    hashed: U64, probe_lo: U64, probe_hi: U64, first: I64, until: I64, low: I64, high: I64, probe_place: I64,
    start: int, limit: int,
) -> Found:  # fmt: skip
    """`hashed` are the probes' hashes, sorted for locality. Probes are processed a chunk at a time, in four passes."""
    two, band, ordered = len(hi) > 0, len(low) > 0, len(place) > 0
    eighths = uint64(8 * (len(offsets) - 1))
    rows, probes = np.empty(1024, np.int64), np.empty(1024, np.int64)
    hopeful, begins, ends = np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.int32), np.empty(_CHUNK, np.int32)
    keys = np.empty(_CHUNK, np.uint64)
    count = looked = unchecked = 0
    for chunk in range(start, len(hashed), _CHUNK):
        if count >= limit:
            return count, chunk, rows, probes, looked, unchecked
        end = min(chunk + _CHUNK, len(hashed))
        before = looked
        for p in range(chunk, end):
            meets = until[p] >= earliest and first[p] <= latest
            looked += meets
            unchecked += meets and first[p] <= earliest and latest <= until[p]
        if looked == before:
            continue
        some = _filter_by_tags(tags, eighths, hashed, chunk, end, hopeful)
        _buckets(offsets, hashed, hopeful, some, begins, ends)
        _first_keys(lo, begins, some, keys)
        for i in range(some):
            p = hopeful[i]
            if ends[i] - begins[i] == 1 and keys[i] != probe_lo[p]:
                continue
            for row in range(begins[i], ends[i]):
                if lo[row] != probe_lo[p] or (two and hi[row] != probe_hi[p]):
                    continue
                if until[p] < latest and times[row] > until[p]:
                    continue
                if first[p] > earliest and times[row] < first[p]:
                    continue
                if band and (value[row] < low[p] or value[row] > high[p]):
                    continue
                if ordered and place[row] >= probe_place[p]:
                    continue
                if count == len(rows):
                    rows, probes = _larger(rows), _larger(probes)
                rows[count], probes[count] = row, p
                count += 1
    return count, len(hashed), rows, probes, looked, unchecked


@allocating_kernel
def probe_sorted(
    value: I64, times: I64, place: I64, earliest: np.int64, latest: np.int64,
    low: I64, high: I64, first: I64, until: I64, probe_place: I64, start: int, limit: int,
) -> Found:  # fmt: skip
    """`low` ascends."""
    ordered = len(place) > 0
    rows, probes = np.empty(1024, np.int64), np.empty(1024, np.int64)
    count = position = looked = unchecked = 0
    for p in range(start, len(low)):
        if count >= limit:
            return count, p, rows, probes, looked, unchecked
        if until[p] < earliest or first[p] > latest:
            continue
        looked += 1
        inside = first[p] <= earliest and latest <= until[p]
        unchecked += inside
        position = gallop(value, low[p], position)
        row = position
        while row < len(value) and value[row] <= high[p]:
            if (inside or (first[p] <= times[row] <= until[p])) and not (ordered and place[row] >= probe_place[p]):
                if count == len(rows):
                    rows, probes = _larger(rows), _larger(probes)
                rows[count], probes[count] = row, p
                count += 1
            row += 1
    return count, len(low), rows, probes, looked, unchecked
