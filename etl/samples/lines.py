"""From columns to lines: the text of the good majority is put together by Arrow, column by column.

order columns (NumPy) ─► text columns ─► lines ─► dirty ones replaced ─► the bytes of a file
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from etl.samples import dirt, draws
from etl.samples.plan import Kind, Plan

Texts = dict[str, pa.Array]
"""An order's fields as JSON tokens, by column, in the order written."""

_CENTS = pa.array([f"{cents:02}" for cents in range(100)])


def whole(numbers: NDArray[np.int64]) -> pa.Array:
    """Integers as text."""
    return pa.array(numbers).cast(pa.string())


def money(cents: NDArray[np.int64]) -> pa.Array:
    """Whole cents as a number with exactly two decimals."""
    return pc.binary_join_element_wise(whole(cents // 100), _CENTS.take(pa.array(cents % 100)), ".")


def times(millis: NDArray[np.int64]) -> pa.Array:
    """Milliseconds since 1970 as quoted ISO-8601 in UTC."""
    plain = pa.array(millis).cast(pa.timestamp("ms")).cast(pa.string())  # 2026-11-16 10:00:00.123
    return pc.binary_join_element_wise('"', pc.binary_replace_slice(plain, 10, 11, "T"), 'Z"', "")


def joined(texts: Texts) -> pa.Array:
    """One JSON object per row, each with its line end."""
    pieces: list[object] = []
    for name, column in texts.items():
        pieces += [f'{"," if pieces else "{"}"{name}":', column]
    return pc.binary_join_element_wise(*pieces, "}\n", "")


def spoiled(seed: int, planned: Plan, texts: Texts, lines: pa.Array) -> tuple[pa.Array, dict[str, int]]:
    """The lines with the malformed and out-of-range ones put in, and how many of which variety."""
    lines = lines.cast(pa.binary())
    where = np.flatnonzero((planned.kind == Kind.MALFORMED) | (planned.kind == Kind.OUT_OF_RANGE))
    if not len(where):
        return lines, {}
    choice = draws.below(2**40, seed, "variety of dirt", planned.line[where]).tolist()
    detail = draws.below(2**40, seed, "detail of dirt", planned.line[where]).tolist()
    fields = pa.table(texts).take(pa.array(where)).to_pylist()
    dirty, varieties = [], Counter[str]()
    for kind, row, chosen, drawn in zip(planned.kind[where], fields, choice, detail, strict=True):
        spoils = dirt.MALFORMED if kind == Kind.MALFORMED else dirt.OUT_OF_RANGE
        variety = list(spoils)[chosen % len(spoils)]
        dirty.append(spoils[variety](row, drawn) + b"\n")
        varieties[variety] += 1
    mask = np.zeros(len(lines), dtype=bool)
    mask[where] = True
    return pc.replace_with_mask(lines, pa.array(mask), pa.array(dirty, pa.binary())), dict(varieties)


def as_bytes(lines: pa.Array) -> memoryview:
    """The lines as they lie in Arrow's own buffer: nothing is copied."""
    _, offsets, data = lines.buffers()
    if data is None or not len(lines):
        return memoryview(b"")
    ends = np.frombuffer(offsets, dtype=np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(data)[int(ends[0]) : int(ends[-1])]
