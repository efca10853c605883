"""Open one version of a Delta table for reading master rows; failures become our errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from etl.errors import MissingPart, TransientError
from etl.masters.rows.shape import Shape


class DeltaFilesGone(TransientError):
    """Files of a pinned version were removed while it was read. The next try pins a newer version."""

    def __init__(self, path: str, version: int) -> None:
        super().__init__(path, version)
        self.path, self.version = path, version

    def __str__(self) -> str:
        return (
            f"files of version {self.version} of Delta table {self.path} are gone, probably vacuumed while they were "
            f"read; the batch will be retried, and VACUUM has to keep files longer than a batch lasts"
        )


def open_table(path: Path | str, version: int | None = None) -> DeltaTable:
    """Open a version of a table; by default the newest."""
    try:
        return DeltaTable(path, version=version)
    except TableNotFoundError:
        raise unreadable(path, "there is no Delta table", "create it, or correct its path") from None
    except DeltaError as error:
        what = "its log cannot be read" if version is None else f"it has no version {version} (any more)"
        raise unreadable(
            path, f"{what}: {_first_line(error)}", "use a version that exists, or restore its log"
        ) from None


def unreadable(path: Path | str, why: str, remedy: str) -> MissingPart:
    """The error for a table, or a part of it, that is missing or unsupported."""
    return MissingPart(f"Delta table {path} cannot be read ({why})", remedy)


def shape_of(table: DeltaTable, path: Path | str, key: Sequence[str], columns: Sequence[str] | None) -> Shape:
    """Key and columns as joins see them; by default all columns."""
    schema = pa.schema(table.schema().to_arrow())
    wanted = [*key, *(columns if columns is not None else [name for name in schema.names if name not in key])]
    for name in wanted:
        if name not in schema.names:
            there = ", ".join(schema.names)
            raise unreadable(path, f"it has no column {name!r}", f"name one of its columns: {there}")
    return Shape.of(str(path), pa.schema([schema.field(name) for name in wanted]), tuple(key))


def conformed(shape: Shape, rows: pa.RecordBatch | pa.Table) -> pa.Table:
    """Cast rows of a Delta reader to the types of a shape: the reader returns text as views."""
    columns = [rows.column(field.name).cast(field.type) for field in shape.schema]
    return pa.Table.from_arrays(columns, schema=shape.schema)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
