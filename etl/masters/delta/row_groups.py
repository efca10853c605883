"""The row groups of a Delta version: its files, the key bounds of their row groups, and reading one.

    log      files of the version, their partition values, their deletion vectors
    footers  row groups with the smallest and largest value of every key column

A writer may truncate these bounds, but only outwards: a key outside them is not in the row group.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import DeltaTable

from etl.enrich.errors import NullMasterKey
from etl.errors import MissingPart
from etl.masters.delta.table import DeltaFilesGone, unreadable
from etl.masters.pages.errors import ColumnMismatch
from etl.masters.rows.key_codec import Mask
from etl.masters.rows.shape import Shape

_UNDERSTOOD = {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
_PUBLISH = "publish it as master pages, or rewrite it without that feature"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file. Partition columns are not in it: the log has their values."""

    path: str  # below the table's root
    partition: Mapping[str, Any]
    kept: bytes | None = field(repr=False)  # a bit per row: 1 unless a deletion vector removes it

    def keeps(self, first: int, rows: int) -> Mask | None:
        """Which of these rows are not deleted; None: all."""
        if self.kept is None:
            return None
        bits = np.unpackbits(np.frombuffer(self.kept, np.uint8))
        kept = np.ones(rows, np.bool_)  # a vector may end before the file does
        marked = bits[first : first + rows].astype(np.bool_)
        kept[: len(marked)] = marked
        return kept


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One page: a row group of a file, with the bounds of every key column (None: unknown)."""

    file: DataFile
    number: int
    first_row: int
    rows: int
    bounds: tuple[tuple[Any, Any] | None, ...]


def row_groups(table: DeltaTable, shape: Shape) -> tuple[RowGroup, ...]:
    """Every row group of a version. Raises for unsupported features and for rows without a key."""
    _refuse_unknown_features(table, shape)
    source = DataFiles(table.table_uri, table.version(), shape)
    groups: list[RowGroup] = []
    for data_file in _data_files(table, shape):
        with source.opened(data_file) as parquet:
            groups += _groups_of(parquet, data_file, shape)
    return tuple(groups)


class DataFiles:
    """Reads row groups. Recently used files stay open: parsing a footer costs more than reading a small row group."""

    def __init__(self, uri: str, version: int, shape: Shape, *, most_open: int = 16) -> None:
        self._files, self._root = pyarrow.fs.FileSystem.from_uri(uri)
        self._version, self._shape, self._most_open = version, shape, most_open
        self._open: OrderedDict[str, pq.ParquetFile] = OrderedDict()

    def close(self) -> None:
        """Close every file."""
        while self._open:
            self._open.popitem()[1].close()

    def read(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        """Some columns of a row group, without the rows that were deleted."""
        shape = self._shape
        stored = self._stored(group, columns)
        arrays = [_column(shape, group, stored, name) for name in columns]
        rows = pa.Table.from_arrays(arrays, schema=pa.schema([shape.schema.field(name) for name in columns]))
        kept = group.file.keeps(group.first_row, group.rows)
        rows = rows if kept is None else rows.filter(pa.array(kept))
        for name in set(shape.key) & set(columns):
            if rows.column(name).null_count:
                raise NullMasterKey(shape.store, rows.column(name).null_count)
        return rows

    def opened(self, data_file: DataFile) -> pq.ParquetFile:
        """Open a file; the caller closes it."""
        try:
            source = self._files.open_input_file(f"{self._root}/{data_file.path}")
            return pq.ParquetFile(source, pre_buffer=True, coerce_int96_timestamp_unit="us")
        except FileNotFoundError:
            raise DeltaFilesGone(self._shape.store, self._version) from None
        except (pa.ArrowInvalid, OSError) as error:
            raise self._damaged(data_file, error) from None

    def _stored(self, group: RowGroup, columns: Sequence[str]) -> pa.Table:
        parquet = self._open.pop(group.file.path, None) or self.opened(group.file)
        self._open[group.file.path] = parquet
        if len(self._open) > self._most_open:
            self._open.popitem(last=False)[1].close()
        inside = [name for name in columns if name in parquet.schema_arrow.names and name not in group.file.partition]
        try:
            return parquet.read_row_group(group.number, columns=inside, use_threads=False)
        except (pa.ArrowInvalid, OSError) as error:
            raise self._damaged(group.file, error) from None

    def _damaged(self, data_file: DataFile, error: Exception) -> MissingPart:
        why = f"file {data_file.path} is damaged: {(str(error).splitlines() or ['unreadable'])[0]}"
        return unreadable(self._shape.store, why, "restore the file, or the table to a version without it")


def _column(shape: Shape, group: RowGroup, stored: pa.Table, name: str) -> pa.ChunkedArray | pa.Array:
    wanted = shape.schema.field(name).type
    if name in group.file.partition:
        return pa.repeat(pa.scalar(group.file.partition[name], wanted), group.rows)
    if name not in stored.schema.names:  # the column was added after the file was written
        return pa.nulls(group.rows, wanted)
    try:
        return stored.column(name).cast(wanted)
    except pa.ArrowInvalid:
        raise ColumnMismatch(shape.store, name, str(stored.schema.field(name).type), str(wanted)) from None


def _refuse_unknown_features(table: DeltaTable, shape: Shape) -> None:
    mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    features = set(table.protocol().reader_features or [])
    features |= {"columnMapping"} if mapping != "none" else set()
    for feature in sorted(features - _UNDERSTOOD):
        raise unreadable(shape.store, f"its files cannot be read directly for its feature {feature}", _PUBLISH)


def _data_files(table: DeltaTable, shape: Shape) -> list[DataFile]:
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    partitions = table.metadata().partition_columns
    kept = _kept_rows(table)
    found = [
        DataFile(
            unquote(action["path"]),
            {name: action[f"partition.{name}"] for name in partitions},
            kept.pop(unquote(action["path"]), None),
        )
        for action in actions
    ]
    if kept:
        raise unreadable(shape.store, f"a deletion vector belongs to no known file: {next(iter(kept))}", _PUBLISH)
    return found


def _kept_rows(table: DeltaTable) -> dict[str, bytes]:
    """By file, a bit per row: 1 unless a deletion vector removes it."""
    if "deletionVectors" not in (table.protocol().reader_features or []):
        return {}
    kept = {}
    for batch in table.deletion_vectors():
        vectors = pa.record_batch(batch)
        for name, mask in zip(vectors.column(0), vectors.column(1), strict=True):
            bits = np.asarray(mask.values.to_numpy(zero_copy_only=False))
            padded = np.concatenate([bits, np.ones(-len(bits) % 8, np.bool_)])  # rows beyond the vector are kept
            kept[unquote(name.as_py().removeprefix(table.table_uri))] = np.packbits(padded).tobytes()
    return kept


def _groups_of(parquet: pq.ParquetFile, data_file: DataFile, shape: Shape) -> list[RowGroup]:
    footer = parquet.metadata
    places = {footer.schema.column(at).path: at for at in range(footer.num_columns)}
    groups, first = [], 0
    for number in range(footer.num_row_groups):
        part = footer.row_group(number)
        statistics = {name: part.column(places[name]).statistics for name in shape.key if name in places}
        nulls = max((known.null_count or 0 for known in statistics.values() if known is not None), default=0)
        if nulls and data_file.kept is None:
            raise NullMasterKey(shape.store, nulls)
        bounds = tuple(_bounds(data_file, statistics, name) for name in shape.key)
        groups.append(RowGroup(data_file, number, first, part.num_rows, bounds))
        first += part.num_rows
    return groups


def _bounds(data_file: DataFile, statistics: Mapping[str, Any], name: str) -> tuple[Any, Any] | None:
    """The bounds of a key column: integers, or bytes of text."""
    if name in data_file.partition:
        value = data_file.partition[name]
        exact = value.encode() if isinstance(value, str) else value
        return None if exact is None else (exact, exact)
    known = statistics.get(name)
    if known is None or not known.has_min_max:
        return None
    is_bytes = known.physical_type == "BYTE_ARRAY"
    return (known.min_raw, known.max_raw) if is_bytes else (known.min, known.max)
