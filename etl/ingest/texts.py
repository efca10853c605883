"""The output of the readers of all formats: the unconverted text of every declared field, and broken lines.

Texts   one field: spans of `data`, and the kind of each          → typed
Parsed  all fields, undeclared ones, and broken lines             → events
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from etl.columnar.jit import kernel
from etl.ingest.kernels.spans import DOUBLED, ESCAPED, I32, NULL, TEXT, UNUSABLE, Mask, write_texts
from etl.ingest.kernels.utf8 import Bytes, is_utf8
from etl.ingest.lines import Lines

Kinds = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Texts:
    """The values of one field as spans of bytes; see `kernels.spans` for the kinds."""

    data: Bytes
    start: I32
    end: I32
    kind: Kinds

    def __len__(self) -> int:
        return len(self.start)

    @property
    def present(self) -> Mask:
        return self.kind > NULL

    def plain(self, strip: str = "") -> Texts:
        """The same values with escapes resolved and the characters of `strip` removed."""
        special = (self.kind == ESCAPED) | (self.kind == DOUBLED)
        if not strip and not special.any():
            return self
        data, offsets, ok = self.written(strip)
        kind = np.where(ok, np.where(special, TEXT, self.kind), np.where(self.present, UNUSABLE, self.kind))
        return Texts(read_only(data), offsets[:-1], offsets[1:], kind.astype(np.uint8))

    def written(self, strip: str = "") -> tuple[Bytes, I32, Mask]:
        """All texts behind one another, their offsets, and which rows have one: an Arrow string array in parts."""
        characters = [character.encode() for character in dict.fromkeys(strip)]
        ends = np.cumsum([len(one) for one in characters], dtype=np.int32)
        removed = read_only(np.frombuffer(b"".join(characters), np.uint8))
        used = np.where(self.present, self.end - self.start, 0).sum(dtype=np.int64)
        out = np.empty(int(used), np.uint8)
        offsets = np.empty(len(self) + 1, np.int32)
        ok = np.empty(len(self), np.bool_)
        write_texts(self.data, self.start, self.end, self.kind, removed, ends, out, offsets, ok)
        return out[: offsets[-1]], offsets, ok


def array_texts(values: pa.Array, kind: int) -> Texts:
    """The values of an Arrow string or binary array, all of one kind; NULL where they are NULL."""
    data = read_only(np.frombuffer(values.buffers()[2] or b"", np.uint8))
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, 4 * values.offset).copy()
    valid = np.asarray(values.is_valid())
    return Texts(data, offsets[:-1], offsets[1:], np.where(valid, kind, NULL).astype(np.uint8))


@dataclass(frozen=True, slots=True)
class Parsed:
    """Parsed lines. A row with a `broken` reason has no fields at all."""

    fields: tuple[Texts, ...]
    extra: pa.Array  # string: JSON of undeclared fields, NULL when there are none
    broken: tuple[tuple[str, Mask], ...]  # reason and its rows; a row has at most one


def read_only(array: Bytes) -> Bytes:
    """Kernels are compiled once, for input that they cannot write."""
    array.flags.writeable = False
    return array


def unreadable(lines: Lines) -> tuple[Mask, Mask]:
    """Which lines are not UTF-8, and which can be parsed at all."""
    bad = np.zeros(len(lines), np.bool_)
    if lines.data.max(initial=0) >= 0x80:
        _not_utf8(lines.data, lines.start, lines.end, bad)
        bad &= ~lines.too_long
    return bad, ~(bad | lines.too_long)


@kernel
def _not_utf8(data: Bytes, start: I32, end: I32, bad: Mask) -> None:
    for row in range(len(start)):
        bad[row] = not is_utf8(data, start[row], end[row])


def strings(data: Bytes, offsets: I32, valid: Mask) -> pa.Array:
    """An Arrow string array of parts that are known to be UTF-8."""
    if not valid.any():
        return pa.nulls(len(valid), pa.string())
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(valid), [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])
