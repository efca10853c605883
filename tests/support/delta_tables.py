"""Small Delta tables for tests, and what only other writers do: deletion vectors, put into the log by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties, write_deltalake

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"  # of base 85


def customers(numbers: Iterable[int], name: str = "customer") -> pa.Table:
    rows = [{"id": number, "name": f"{name} {number}"} for number in numbers]
    return pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("name", pa.string())]))


def write(path: Path, rows: pa.Table, *, feed: bool = True, **options: Any) -> None:
    """Append to a table, or make it; row groups of 100 rows."""
    write_deltalake(
        path,
        rows,
        mode=options.pop("mode", "append"),
        configuration={"delta.enableChangeDataFeed": "true" if feed else "false"},
        writer_properties=WriterProperties(max_row_group_size=100),
        **options,
    )


def commit(path: Path, *actions: dict[str, Any]) -> None:
    """One more log entry, as it is."""
    version = DeltaTable(path).version() + 1
    (path / "_delta_log" / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def logged(path: Path, version: int, kind: str) -> dict[str, Any]:
    """The first action of a kind in a log entry."""
    lines = (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    action: dict[str, Any] = next(json.loads(line)[kind] for line in lines if kind in json.loads(line))
    return action


def mark_deleted(path: Path, *rows: int) -> None:
    """Delete rows of the file written first, by their place in it, through a deletion vector and nothing else."""
    add = logged(path, 0, "add")
    vector = _vector(sorted(rows))
    described = {
        "storageType": "i",
        "pathOrInlineDv": _text(vector),
        "sizeInBytes": len(vector),
        "cardinality": len(rows),
    }
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors", "changeDataFeed"]}
    commit(
        path,
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": add["path"], "dataChange": True, "deletionTimestamp": 0}},
        {"add": {**add, "deletionVector": described}},
    )


def _vector(rows: list[int]) -> bytes:
    """A roaring bitmap of one container, below the number Delta marks them with."""
    numbers = struct.pack(f"<{len(rows)}H", *rows)
    return struct.pack("<IQI", 1681511377, 1, 0) + struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + numbers


def _text(data: bytes) -> str:
    words = struct.iter_unpack(">I", data + bytes(-len(data) % 4))
    return "".join(_DIGITS[word // 85**place % 85] for (word,) in words for place in (4, 3, 2, 1, 0))
