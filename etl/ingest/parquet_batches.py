"""Batches of a Parquet file whose values fit into memory, however small the file is.

    file ── some thousand rows, texts as dictionaries ──▶ row_bytes ─┬─ few bytes: collected, plain ──▶ one batch
                                                                     └─ more: the batch as it is, to be cut by bytes

A text that occurs a million times is in a file once, so a file's size says nothing about its rows. Texts and bytes are
therefore read as dictionaries, and measured before they are copied into rows. What Arrow cannot read so (nested values,
texts that share beginnings) is read in steps that follow from the sizes that the file declares. A file that lies about
those may still kill a task; it is found like a line that does. See ADR 119.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as kinds

from etl.ingest.render import value_text

ROWS: Final = 65_536
"""Rows of a batch."""
BYTES: Final = 16 * 2**20
"""Bytes of a batch's values."""
_ROWS_AT_ONCE: Final = 8_192
_FEWEST_AT_ONCE: Final = 64  # of values whose size is only declared
_BYTES_AT_ONCE: Final = 64 * 2**20

I64 = npt.NDArray[np.int64]


def bounded_batches(content: BinaryIO) -> Iterator[pa.RecordBatch]:
    """The rows of a file in order. A batch of more than BYTES has its texts as dictionaries."""
    source = pa.PythonFile(content, mode="r")
    metadata = pq.read_metadata(source)
    schema = metadata.schema.to_arrow_schema()
    texts = _read_as_dictionaries(metadata, schema)
    source.seek(0)
    file = pq.ParquetFile(source, metadata=metadata, read_dictionary=texts)
    collected: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in file.iter_batches(_at_once(metadata, schema, texts), use_threads=False):
        more = int(row_bytes(batch).sum())
        if collected and (rows + batch.num_rows > ROWS or size + more > BYTES):
            yield pa.concat_batches(collected)
            collected, rows, size = [], 0, 0
        if more > BYTES:
            yield batch
            continue
        collected.append(plain(batch))
        rows, size = rows + batch.num_rows, size + more
    if collected:
        yield pa.concat_batches(collected)


def plain(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows without dictionaries."""
    columns = [one.dictionary_decode() if kinds.is_dictionary(one.type) else one for one in rows.columns]
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def row_bytes(rows: pa.RecordBatch) -> I64:
    """The bytes of every row's values, as if no row shared them with others."""
    size = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        size += _value_bytes(column)
    return size


def beginnings(rows: pa.RecordBatch, most: int) -> pa.Array:
    """Rows that are not parsed, as JSON: value by value without kernels, each row cut at so many bytes."""
    return pa.array([_beginning(rows, row, most) for row in range(rows.num_rows)], pa.binary())


def _beginning(rows: pa.RecordBatch, row: int, most: int) -> bytes:
    members, left = {}, most
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        is_longer = kinds.is_nested(column.type) and column.slice(row, 1).nbytes > left
        members[name] = value_text(column[row], max(0, left), is_longer=is_longer)
        left -= len(members[name] or "")
    return json.dumps(members, ensure_ascii=False).encode("utf-8", "replace")[:most]


def _value_bytes(column: pa.Array) -> I64 | int:
    kind = column.type
    if kinds.is_dictionary(kind):
        known = np.append(_value_bytes(column.dictionary) * np.ones(len(column.dictionary), np.int64), 0)
        sizes: I64 = known[column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)]
        return sizes
    if is_bytes(kind):
        return _lengths(column)
    if kinds.is_nested(kind):
        if column.nbytes <= BYTES // ROWS:
            return int(column.nbytes)
        return np.array([column.slice(row, 1).nbytes for row in range(len(column))], np.int64)
    return 1 if kinds.is_null(kind) else _width(kind)


def _lengths(column: pa.Array) -> I64:
    if not (kinds.is_string(column.type) or kinds.is_binary(column.type)):
        column = column.cast(pa.large_binary())
    lengths: I64 = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths


def is_bytes(kind: pa.DataType) -> bool:
    """Text or bytes of any length."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
                or kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind))  # fmt: skip


def _read_as_dictionaries(metadata: pq.FileMetaData, schema: pa.Schema) -> list[str]:
    """The columns of texts and bytes, except those that Arrow cannot read so."""
    other = {  # texts that share beginnings, or have their lengths apart
        chunk.path_in_schema
        for chunk in _chunks(metadata)
        if any(encoding.startswith("DELTA") for encoding in chunk.encodings)
    }
    return [one.name for one in schema if is_bytes(one.type) and one.name not in other]


def _at_once(metadata: pq.FileMetaData, schema: pa.Schema, texts: list[str]) -> int:
    """How many rows to decode at once."""
    flat = {one.name for one in schema if not kinds.is_nested(one.type)}
    width = sum(_width(one.type) for one in schema if _is_fixed(one.type))
    longest = max(
        (
            max(chunk.total_uncompressed_size, 8 * chunk.num_values)  # all of a chunk may be one value
            for chunk in _chunks(metadata)
            if chunk.path_in_schema not in flat
            or (chunk.physical_type == "BYTE_ARRAY" and chunk.path_in_schema not in texts)
        ),
        default=0,
    )
    rows = max(_FEWEST_AT_ONCE, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // max(1, longest)))
    return max(1, min(rows, _BYTES_AT_ONCE // max(1, width)))


def _chunks(metadata: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        yield from (group.column(column) for column in range(group.num_columns))


def _is_fixed(kind: pa.DataType) -> bool:
    return not (is_bytes(kind) or kinds.is_nested(kind) or kinds.is_null(kind) or kinds.is_dictionary(kind))


def _width(kind: pa.DataType) -> int:
    return -(-int(kind.bit_width) // 8)
