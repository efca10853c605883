"""Rows of any columns as JSON text: for people, and for `extra`. Types that JSON lacks are rendered as text.

column ──▶ texts ──▶ JSON lexemes ──▶ {"a":7,"b":"x"}      whole columns at a time; only nested values one by one
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from etl.columnar.keys import to_contiguous
from etl.ingest.kernels.json_write import write_lexemes
from etl.ingest.kernels.spans import BOOLEAN, NULL, NUMBER, TEXT
from etl.ingest.texts import array_texts, strings


def as_json(rows: pa.RecordBatch | pa.Table, nulls: bool = False) -> pa.Array:
    """One object per row; without `nulls` only non-NULL values, and NULL for a row without any."""
    members = []
    for number, name in enumerate(rows.schema.names):
        lexemes = _lexemes(to_contiguous(rows.column(number)))
        lexemes = lexemes.fill_null("null") if nulls else lexemes
        prefix = f",{json.dumps(name, ensure_ascii=False)}:"
        members.append(pc.binary_join_element_wise(prefix, lexemes, "").fill_null(""))
    inside = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*members, ""), 1)  # without the first comma
    inside = inside if nulls else pc.if_else(pc.equal(inside, ""), pa.scalar(None, pa.string()), inside)
    return pc.binary_join_element_wise("{", inside, "}", "")


def _lexemes(values: pa.Array) -> pa.Array:
    """The JSON text of every value, NULL where there is none."""
    values, kind = _shown(values)
    texts = array_texts(values.cast(pa.string()), kind)
    room = int((texts.end - texts.start).sum(dtype=np.int64)) * (6 if kind == TEXT else 1) + 2 * len(texts)
    out, offsets = np.empty(room, np.uint8), np.empty(len(texts) + 1, np.int32)
    write_lexemes(texts.data, texts.start, texts.end, texts.kind, out, offsets)
    return strings(out[: offsets[-1]].copy(), offsets, texts.kind > NULL)


def _shown(values: pa.Array) -> tuple[pa.Array, int]:
    """Values that have a text, and its kind; bytes that are not UTF-8 are replaced."""
    kind = values.type
    if kinds.is_boolean(kind) or kinds.is_integer(kind) or kinds.is_decimal(kind):
        return values, BOOLEAN if kinds.is_boolean(kind) else NUMBER
    if kinds.is_floating(kind):
        return pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind)), NUMBER
    texts = None if kinds.is_nested(kind) else _as_text(values)
    return pa.array([_text(value) for value in values], pa.string()) if texts is None else texts, TEXT


def _as_text(values: pa.Array) -> pa.Array | None:
    """All values as text at once; None when Arrow cannot convert one of them, such as bytes that are not UTF-8."""
    try:
        return values.cast(pa.binary()).cast(pa.string()) if _is_bytes(values.type) else values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _is_bytes(kind: pa.DataType) -> bool:
    """Bytes, or text, which in a file need not be UTF-8."""
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind)
                or kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
                or kinds.is_fixed_size_binary(kind))  # fmt: skip


def value_text(value: pa.Scalar, most: int, *, is_longer: bool) -> str | None:
    """One value as text, cut at so many bytes; of a nested one that `is_longer` the name of its type."""
    if kinds.is_dictionary(value.type):
        value = value.value
    if not value.is_valid:
        return None
    if _is_bytes(value.type):
        content = value.as_buffer()
        return str(content.slice(0, min(most, content.size)).to_pybytes(), "utf-8", "replace")
    if kinds.is_nested(value.type):
        return f"<{value.type}>"[:most] if is_longer else _text(value)
    try:
        return str(value.cast(pa.string()).as_py())
    except pa.ArrowException:
        return f"<{value.type}>"


def _text(value: pa.Scalar) -> str | None:
    if not value.is_valid:
        return None
    try:
        if _is_bytes(value.type):
            return str(value.as_buffer().to_pybytes(), "utf-8", "replace")
        return json.dumps(value.as_py(), default=str, ensure_ascii=False)
    except (ValueError, OverflowError, TypeError, pa.ArrowException):
        return f"<{value.type}>"
